"""The runs of the paper's experiments: the paper's settings at full budget, and parts of them."""

import inspect
from typing import get_args

import pytest

from narrows._util.errors import NarrowsError, as_option
from narrows.cli.reproduce import reproduce
from narrows.paper import published
from narrows.paper.experiments import EXPERIMENTS, plan
from narrows.paper.page import TITLES
from narrows.paper.plan import Name, Options
from narrows.recipes.registry import RECIPES


def test_every_experiment_is_offered_planned_and_titled():
    assert inspect.signature(reproduce).parameters["experiment"].annotation == Name
    assert set(get_args(Name)) == set(EXPERIMENTS) == set(TITLES)
    assert all(plan(name, Options()) for name in EXPERIMENTS)


def test_training_is_the_papers_run():
    (job,) = plan("training", Options())
    config = job.config
    assert (config.data, config.n, config.tau, config.steps) == ("dsprites", 10, 20.0, 50_000)
    assert (config.recipe, config.batch, config.estimator) == ("paper", 64, "arm")
    assert config.learning_rate == "auto"
    assert RECIPES["paper"].learning_rate == 1e-3
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
        ("table", Options(budget=0.0), "--budget must be above 0 and at most 1; it is 0"),
        ("table", Options(budget=float("nan")), "--budget must be above 0"),
        ("table", Options(budget=1.5), "--budget must be above 0"),
        ("table", Options(seeds=0), "--seeds must be at least 1; it is 0"),
        ("table", Options(width=0), "--width must be at least 1; it is 0"),
        ("table", Options(recipe="paper,quick"), "--recipe must be paper, fast or paper,fast; it is 'paper,quick'"),
        (
            "table",
            Options(only="mnits"),
            "--only: 'mnits' is not a part of this experiment; its parts are dsprites, dsprites-5",
        ),
        ("front", Options(only="5"), "--only: '5' is not a part of this experiment; its parts are 3, 4, 6"),
        ("training", Options(one_run=True), "--one-run is for `narrows reproduce front`, not for training"),
    ],
)
def test_what_cannot_be_run(experiment, options, expected):
    with pytest.raises(NarrowsError) as error:
        plan(experiment, options)
    assert expected in error.value.spelled(as_option)
