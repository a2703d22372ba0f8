"""Which runs a sweep has, their names, and descriptions that cannot be used."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import narrows
from narrows._util.errors import NarrowsError
from narrows.sweeps.plan import MOST, make_plan
from narrows.training.config import TrainConfig

GUIDE = Path(__file__).parents[2] / "docs" / "sweeps.md"


def test_product_and_zip():
    lists = {"tau": [1, 2], "seed": range(3), "width": 8}
    plan = make_plan(lists)
    assert [run.name for run in plan.runs] == [f"tau-{tau}-seed-{seed}" for tau in (1, 2) for seed in (0, 1, 2)]
    assert plan.runs[4].config == TrainConfig(tau=2.0, seed=1, width=8, threads=1).checked()
    assert plan.runs[4].swept == {"tau": 2, "seed": 1}
    zipped = make_plan({**lists, "seed": [5, 6], "sweep": {"combine": "zip", "cpus": 3}})
    assert [(run.config.tau, run.config.seed) for run in zipped.runs] == [(1.0, 5), (2.0, 6)]
    assert [run.name for run in make_plan({"tau": 1}).runs] == ["run"]


def test_threads_are_fixed_so_that_every_engine_trains_the_same_model():
    assert {run.config.threads for run in make_plan({"tau": [1, 2], "sweep": {"cpus": 3}}).runs} == {3}
    assert {run.config.threads for run in make_plan({"tau": 1, "threads": [1, 2], "sweep": {"cpus": 3}}).runs} == {1, 2}


def test_a_file_is_read_as_a_dict_is(tmp_path):
    (tmp_path / "a.toml").write_text('tau = [1, 2]\nrecipe = ["fast", "paper"]\n[sweep]\ncombine = "zip"\n')
    (tmp_path / "a.json").write_text(
        json.dumps({"tau": [1, 2], "recipe": ["fast", "paper"], "sweep": {"combine": "zip"}})
    )
    assert make_plan(tmp_path / "a.toml") == make_plan(tmp_path / "a.json")
    assert make_plan({"tau": np.array([0.5, 1.5])}).runs[1].config.tau == 1.5


def test_the_file_of_the_guide_is_one(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "sweep.toml").write_text(text)
    runs = make_plan(tmp_path / "sweep.toml").runs
    assert [run.name for run in runs[:3]] == ["explained-0.8-seed-0", "explained-0.8-seed-1", "explained-0.9-seed-0"]
    assert len(runs) == 6


def test_names_are_those_of_files_and_differ(tmp_path):
    for name in ("a/x.npy", "b/x.npy", "c d.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    data = [str(tmp_path / name) for name in ("a/x.npy", "b/x.npy", "c d.npy")]
    runs = make_plan({"data": data, "tau": 1, "columns": ["a,b"]}).runs
    assert [run.name for run in runs] == ["data-x-columns-a-b", "data-x-columns-a-b-2", "data-c-d-columns-a-b"]
    (long,) = make_plan({"data": ["x" * 5000], "tau": 1}).runs
    assert len(long.name) < 100


def test_paths_are_made_absolute_so_that_every_node_finds_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").touch()
    assert make_plan({"data": "x.npy", "tau": 1}).runs[0].config.data == str(tmp_path / "x.npy")


def test_what_must_stay_the_same_leaves_out_the_equipment():
    one, other = (
        {"tau": [1, 2], "device": device, "sweep": {"cpus": cpus}} for device, cpus in (("cpu", 1), ("auto", 2))
    )
    assert make_plan(one).identity() == make_plan(other).identity()
    assert make_plan({**one, "tau": [1, 3]}).identity() != make_plan(one).identity()


def test_with_taus_every_run_is_a_front():
    plan = make_plan({"seed": [0, 1], "sweep": {"taus": [3, 1]}})
    assert plan.taus == [1.0, 3.0]
    assert [run.config.tau for run in plan.runs] == [None, None]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tua": [1, 2]}, "has an unknown setting 'tua'; did you mean 'tau'?"),
        ({"cpus": 2}, "cpus is not a setting of the runs; put it into the table [sweep]"),
        ({"tau": []}, "tau is an empty list; give it values, or leave it out"),
        ({"tau": [[1, 2]]}, "tau must be a value or a list of values; it has [1, 2]"),
        ({"tau": {"from": 1}}, "tau must be a value or a list of values"),
        ({"tau": [1, -2]}, "tau must be a number above 0"),
        ({"tau": [1, "low"]}, "tau must be a number; it is 'low'"),
        ({"tau": [1, 1.0]}, "two runs are the same: tau = 1.0; leave one out"),
        ({"tau": [1, 2], "explained": [0.5, 0.6]}, "give only one of tau, explained"),
        ({"seed": range(101), "split_seed": range(100), "tau": 1}, f"at most {MOST:,} runs; these are 10,100"),
        ({"tau": 1, "sweep": []}, "sweep must be a table with combine"),
        ({"tau": 1, "sweep": {"combine": "sum"}}, "sweep.combine must be product or zip; it is 'sum'"),
        ({"tau": 1, "sweep": {"combin": "zip"}}, "[sweep] has an unknown entry 'combin'; did you mean 'combine'?"),
        ({"tau": 1, "sweep": {"seed": [1]}}, "seed is a setting of the runs; put it above the table [sweep]"),
        ({"tau": 1, "sweep": {"cpus": 0}}, "sweep.cpus must be a whole number from 1 on; it is 0"),
        ({"tau": 1, "sweep": {"gpus": "all"}}, "sweep.gpus must be a number of at least 0"),
        ({"sweep": {"taus": 5}}, "sweep.taus must be a list of numbers above 0"),
        ({"sweep": {"taus": [1, -1]}}, "taus must be numbers above 0"),
        ({"sweep": {"taus": [1, 2, 1.0]}}, "taus has 1 more than once; give each tau once"),
        ({}, 'there are no settings; give some, such as data = "my.npy" and explained = [0.8, 0.9]'),
        ({"sweep": {"cpus": 2}}, "there are no settings; give some"),
        ({"tau": 1, "sweep": {"taus": [1]}}, "a front has its own taus; leave tau out"),
        (
            {"tau": [1, 2], "seed": [0, 1, 2], "sweep": {"combine": "zip"}},
            "must be equally long; they have tau 2, seed 3",
        ),
    ],
)
def test_what_cannot_be_swept(settings, expected):
    with pytest.raises(NarrowsError) as error:
        make_plan(settings)
    assert expected in str(error.value)
    assert str(error.value).startswith("the sweep")


def test_a_sweep_without_any_data_or_cores_for_a_run_is_refused_before_it_begins(tmp_path):
    for settings, says in (
        ({"data": "nowhere.npy", "tau": [1, 2]}, "no such file, folder or set: 'nowhere.npy'"),
        ({"data": "dsprites", "tau": [1, 2], "sweep": {"cpus": 999}}, "cpus must be at most .* it is 999"),
    ):
        with pytest.raises(NarrowsError, match=says):
            narrows.sweep(settings, tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()
