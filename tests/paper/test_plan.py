"""Which runs the paper's experiments are: its own numbers at full budget, and parts of them."""

from dataclasses import replace

import pytest

from narrows.errors import NarrowsError
from narrows.experiments.board import Board, plan
from narrows.experiments.plan import Options
from narrows.experiments.work import open_after
from narrows.report import published
from narrows.runs import MetricRow


def test_training_is_the_papers_run():
    (job,) = plan("training", Options())
    config = job.config
    assert (config.data, config.n, config.tau, config.steps) == ("dsprites", 10, 20.0, 50_000)
    assert (config.recipe, config.batch, config.learning_rate, config.estimator) == ("paper", 64, 1e-3, "arm")
    assert job.marks == (10_000, 20_000, 25_000, 50_000)


def test_the_front_has_the_papers_ten_values_for_2000_epochs_each():
    jobs = plan("front", Options())
    assert [job.config.tau for job in jobs] == [3, 4, 6, 8, 10, 14, 18, 22, 26, 30]
    assert {(job.config.data, job.config.n, job.config.steps) for job in jobs} == {("mnist", 32, 2_000 * 60_000 // 64)}


def test_one_run_has_all_values_and_the_fast_recipe():
    (job,) = plan("front", Options(one_run=True))
    assert job.taus == (3, 4, 6, 8, 10, 14, 18, 22, 26, 30)
    assert (job.config.recipe, job.config.tau) == ("fast", None)
    (part,) = plan("front", Options(one_run=True, only="30, 6"))
    assert part.taus == (6, 30)
    assert part.key != job.key


def test_the_table_is_five_sets_and_three_sizes_with_twice_the_dimensions():
    jobs = plan("table", Options())
    assert {(job.config.data, job.baseline.n) for job in jobs} == set(published.TABLE)
    for job in jobs:
        assert job.config.n == 2 * job.baseline.n
        assert (job.baseline.steps, job.config.steps) == (200_000, 400_000)
        assert job.baseline.tau == 1e-30, "tau = 0: the constraint is never met"
        assert job.marks == (200_000, 300_000, 400_000)
        job.config.checked()
        job.baseline.checked()


def test_the_fast_recipe_has_its_own_plain_vae():
    jobs = plan("table", Options(recipe="fast"))
    assert {job.config.as_good_as for job in jobs} == {5, 10, 30}
    assert all(job.baseline is None for job in jobs)


def test_a_part_of_the_budget():
    (job,) = plan("training", Options(budget=0.3))
    assert (job.config.steps, job.marks) == (15_000, (10_000, 15_000))
    part = plan("table", Options(budget=0.05, only="mnist-5"))
    assert [(job.baseline.steps, job.config.steps, job.marks) for job in part] == [
        (10_000, 20_000, (10_000, 15_000, 20_000))
    ]
    assert plan("reconstructions", Options(budget=1e-9))[0].config.steps == 1


@pytest.mark.parametrize(
    ("only", "keys"),
    [
        ("mnist", ["mnist-5-paper-0", "mnist-10-paper-0", "mnist-30-paper-0"]),
        ("mnist-30,dsprites-5", ["dsprites-5-paper-0", "mnist-30-paper-0"]),
    ],
)
def test_only(only, keys):
    assert [job.key for job in plan("table", Options(only=only))] == keys


def test_recipes_and_seeds_multiply_and_keys_differ():
    jobs = plan("reconstructions", Options(recipe="paper,fast", seeds=3))
    assert len({job.key for job in jobs}) == len(jobs) == 12
    assert {job.config.seed for job in jobs} == {0, 1, 2}


@pytest.mark.parametrize(
    ("experiment", "options", "expected"),
    [
        ("table", Options(budget=0.0), "--budget must be above 0 and at most 1 (all of the paper's batches); it is 0"),
        ("table", Options(budget=float("nan")), "--budget must be above 0"),
        ("table", Options(budget=1.5), "--budget must be above 0"),
        ("table", Options(seeds=0), "--seeds must be at least 1; it is 0"),
        ("table", Options(width=0), "--width must be at least 1; it is 0"),
        ("table", Options(recipe="paper,quick"), "--recipe must be paper, fast or paper,fast; it is 'paper,quick'"),
        ("table", Options(only="mnits"), "--only: there is no 'mnits' in this experiment; it has dsprites, dsprites-5"),
        ("front", Options(only="5"), "--only: there is no '5' in this experiment; it has 3, 4, 6"),
        ("training", Options(one_run=True), "--one-run is for `narrows reproduce front`, not training"),
    ],
)
def test_what_cannot_be_run(experiment, options, expected):
    with pytest.raises(NarrowsError) as error:
        plan(experiment, options)
    assert expected in str(error.value)


def test_a_folder_is_one_experiments(tmp_path):
    options = Options(budget=0.1)
    Board(tmp_path / "a", "table").open(options, go_on=False)
    for board, other, go_on, expected in (
        (Board(tmp_path / "a", "table"), options, False, "go on with it with --resume"),
        (Board(tmp_path / "a", "front"), options, True, "holds the experiment 'table'; choose another --out for front"),
        (Board(tmp_path / "a", "table"), replace(options, budget=0.2), True, "was started with --budget 0.1, not 0.2"),
        (Board(tmp_path / "a", "table"), replace(options, width=8), True, "was started with --width 32, not 8"),
        (Board(tmp_path, "table"), options, True, "is not empty and holds no experiment"),
        (Board(tmp_path / "a" / "experiment.json", "table"), options, True, "is a file"),
        (Board(tmp_path / "a" / "experiment.json" / "b", "table"), options, False, "cannot write the folder"),
    ):
        with pytest.raises(NarrowsError, match=expected):
            board.open(other, go_on)
    Board(tmp_path / "a", "table").open(replace(options, seeds=3, recipe="fast"), go_on=True)


def test_rows_of_done_jobs_come_from_their_folders_and_the_rest_is_not_yet(tmp_path):
    board = Board(tmp_path, "table")
    first, second = plan("table", Options(only="mnist-5,mnist-10"))
    (tmp_path / first.key).mkdir()
    done = replace(first.row("done"), dims=5, marks=(1, 2), open=(6, 5), error=1 / 3)
    board.keep(first.key, [done])
    rows = board.rows([first, second])
    assert rows[0] == done
    assert (rows[1].status, rows[1].n) == ("not yet", 20)
    board.write_table(rows)
    lines = board.table.read_text().splitlines()
    assert len(lines) == 3
    assert "6 5" in lines[1]
    assert "0.333333" in lines[1]
    missing = second.rows("missing", "not here, and cannot be drawn")
    assert board.rows([first, second], {second.key: missing})[1].reason == "not here, and cannot be drawn"


def test_gates_are_counted_by_the_last_row_until_then():
    rows = [MetricRow(step, 1.0, 1.0, gates, 1.0, 0.5, 1.0, 1.0, 1.0) for step, gates in ((50, 9), (100, 7))]
    assert [open_after(rows, step, 10) for step in (10, 50, 99, 100, 1_000)] == [10, 9, 9, 7, 7]
