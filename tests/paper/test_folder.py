"""The folder of an experiment: what may continue in it, and its table."""

from dataclasses import replace

import pytest

from narrows._util.errors import NarrowsError
from narrows.paper.experiments import plan
from narrows.paper.folder import ExperimentFolder
from narrows.paper.plan import Options


def test_a_folder_belongs_to_one_experiment(tmp_path):
    options = Options(budget=0.1)
    ExperimentFolder(tmp_path / "a", "table").open(options, resume=False)
    for path, name, changed, resume, expected in (
        ("a", "table", {}, False, "already holds this experiment; add resume, or choose another out"),
        ("a", "front", {}, True, "holds the experiment table, not front; choose another out"),
        ("a", "table", {"budget": 0.2}, True, "was started with budget=0.1, not 0.2"),
        ("a", "table", {"width": 8}, True, "was started with width=32, not 8"),
        (".", "table", {}, True, "is not empty and holds no experiment"),
        ("a/experiment.json", "table", {}, True, "cannot create the folder"),
        ("a/experiment.json/b", "table", {}, False, "cannot create the folder"),
    ):
        with pytest.raises(NarrowsError, match=expected):
            ExperimentFolder(tmp_path / path, name).open(replace(options, **changed), resume)
    ExperimentFolder(tmp_path / "a", "table").open(replace(options, seeds=3, recipe="fast"), resume=True)


def test_rows_of_done_jobs_come_from_their_folders_and_the_rest_is_not_yet(tmp_path):
    folder = ExperimentFolder(tmp_path, "table")
    first, second = plan("table", Options(only="mnist-5,mnist-10"))
    (tmp_path / first.key).mkdir()
    done = replace(first.row("done"), dims=5, marks=(1, 2), open=(6, 5), error=1 / 3)
    folder.write_rows(first.key, [done])
    rows = folder.rows([first, second])
    assert rows[0] == done
    assert (rows[1].status, rows[1].n) == ("not yet", 20)
    folder.write_table(rows)
    lines = folder.table.read_text().splitlines()
    assert len(lines) == 3
    assert "6 5" in lines[1]
    assert "0.333333" in lines[1]
    missing = second.rows("missing", "not here, and cannot be drawn")
    assert folder.rows([first, second], {second.key: missing})[1].reason == "not here, and cannot be drawn"
