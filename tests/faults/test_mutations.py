"""The quick part of `python tests/faults/mutations.py`, and laws about the text files of a run folder."""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given, settings, strategies as st

import commands
import narrows
from faults import mutations, mutators, run_targets
from faults.target import check_line
from narrows import NarrowsError, TrainConfig
from narrows.report import text
from narrows.runs.folder import RunFolder, read_settings
from narrows.runs.records import Certificate, DecisionRow, Dimension, HeldOut, MetricRow, Result
from narrows.training.checkpoint import MAGIC
from narrows.training.config import config_from_dict, to_dict

COUNT = 24
"""Cases per target; `make faults` runs hundreds."""
LAW = settings(derandomize=True, deadline=None, max_examples=80, database=None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=8,
)
HELD = HeldOut(1.0, 1.5, 0.9, 100, 0.3)
RESULT = Result(
    n=4, dims=1, kept=[2], tau=2.0, values=9, variance=3.0, heldout=HELD, validation=HELD, best_error=1.0, best_dims=1,
    met=True, model="smallest that met tau", model_step=10, steps=20, seconds=1.5, seed=0, versions={"torch": "2"},
    dimensions=[Dimension(2, 0.5, 1.0, 0.0, 1.0)], errors_of_first=[2.0, 1.0],
    certificate=Certificate("exact", 0.95, 9.0, 1, 0.9, 1.9),
)  # fmt: skip
SHORT = [cell for cell in mutators.CELLS if len(cell) < 1_000]
NAMES = list(mutations.TARGETS)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    return RunFolder(tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("names", [NAMES[::2], NAMES[1::2]], ids=["even", "odd"])
def test_mutated_files_are_accepted_or_refused_by_one_line(names, tmp_path):
    tallies = mutations.tally(names, range(COUNT), mutations.SEED, tmp_path, show=False)
    failures = [
        f"{why}: {mutations.repeat(name, number, mutations.SEED)}"
        for name, one in tallies.items()
        for number, why in one.failures
    ]
    assert failures == []
    for name, one in tallies.items():
        assert sum(one.endings.values()) == COUNT, name


@pytest.mark.parametrize(
    "mutate",
    [mutators.mutate_bytes, mutators.mutate_json, mutators.mutate_csv, mutators.mutate_toml],
    ids=lambda mutate: mutate.__name__,
)
def test_a_mutation_depends_on_its_seed_alone_and_changes_the_file(mutate):
    content = {"mutate_json": b'{"a": [1, {"b": 2}]}', "mutate_toml": b"a = 1\nb = 2"}.get(
        mutate.__name__, b"a,b\n1,2\n"
    )
    made = [mutate(Random(f"0/{number}"), content, ()) for number in range(200)]
    assert made == [mutate(Random(f"0/{number}"), content, ()) for number in range(200)]
    assert len(set(made)) > 100
    assert made.count(content) < 20


HARNESS = """
import ctypes, json, sys
from pathlib import Path

sys.path.insert(0, {tests!r})
from faults import mutations
from faults.target import Target

def read(folder, victim, rng):
    behaviour = victim.read_text()
    if behaviour == "crash":
        ctypes.string_at(0)
    if behaviour == "escape":
        Path({outside!r}).write_text("escaped")
    if behaviour == "key":
        raise KeyError("n")
    if behaviour == "leave":
        open({folder!r} + "/temporary/left", "w").close()
    if behaviour == "exit":
        sys.exit(3)

def target(name):
    make = lambda folder: (folder / "behaviour").write_text("fine")
    return Target(name, make, read, lambda rng, content, others: name.encode())

mutations.TARGETS = {{name: target(name) for name in ("crash", "escape", "key", "leave", "exit", "fine")}}
if "--worker" in sys.argv:
    mutations.work()
mutations.__file__ = __file__
endings = mutations.run(list(mutations.TARGETS), range(1), 0, Path({folder!r}))
print(json.dumps([[name, number, *ending] for name, number, ending in endings]))
"""


def test_what_a_reader_must_not_do_is_noticed(tmp_path):
    script, folder = tmp_path / "harness.py", tmp_path / "box"
    folder.mkdir()
    places = {"tests": Path(__file__).parents[1], "outside": tmp_path / "outside", "folder": folder}
    script.write_text(HARNESS.format(**{name: str(path) for name, path in places.items()}))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    endings = {(name, number): (kind, why) for name, number, kind, why in json.loads(done.stdout)}
    assert {endings[name, -1] for name, _ in endings} == {("accepted", "")}
    assert endings["fine", 0] == ("accepted", "")
    expected = {
        "crash": "SIGSEGV",
        "escape": "outside the cache",
        "key": "KeyError: 'n'",
        "leave": "left is left",
        "exit": "SystemExit: 3",
    }
    for name, words in expected.items():
        kind, why = endings[name, 0]
        assert kind == "failed"
        assert words in why


def refused_in_one_line(call):
    """Return what a call returns, or None if it refuses its input in one line."""
    try:
        return call()
    except NarrowsError as error:
        check_line(error)
        return None


@LAW
@given(st.sampled_from([*asdict(RESULT), "heldout", "certificate", "dimensions"]), JSON)
def test_a_result_with_any_value_is_refused_or_can_be_shown(run, name, value):
    run.result.write_text(json.dumps({**asdict(RESULT), name: value}))
    result = refused_in_one_line(run.read_result)
    if result is not None:
        text.headline(result)
        assert Result.from_json(result.to_json()) == result


@LAW
@given(st.dictionaries(st.sampled_from(list(to_dict(TrainConfig()))) | st.text(max_size=5), JSON, max_size=3) | JSON)
def test_settings_of_any_values_are_refused_or_stay_as_they_are(run, content):
    run.config.write_text(json.dumps(content))
    stored = refused_in_one_line(lambda: read_settings(run.config))
    if stored is not None:
        config = refused_in_one_line(lambda: config_from_dict(stored, "settings"))
        assert config is None or config_from_dict(to_dict(config), "settings") == config


@LAW
@given(st.text(max_size=60) | st.lists(st.sampled_from(SHORT), max_size=12).map(",".join))
def test_tables_of_any_text_are_refused_or_read(run, line):
    for path, kind, read in (
        (run.metrics, MetricRow, run.read_rows),
        (run.decisions, DecisionRow, run.read_decisions),
        (run.costs, None, run.read_first_costs),
    ):
        header = ",".join(kind.columns()) if kind else "step,0,1"
        path.write_text(f"{header}\n{line}\n", newline="")
        refused_in_one_line(read)


@LAW
@given(st.builds(
    MetricRow, *[st.integers(0, 10**9)], *[st.floats(0, 1e9)] * 2, st.integers(0, 999), *[st.floats(0, 1e9)] * 6
))  # fmt: skip
def test_a_row_of_metrics_survives_its_file(row):
    again = MetricRow.parse(",".join(row.cells()))
    assert replace(again, **{name: pytest.approx(value, rel=1e-5) for name, value in vars(row).items()}) == again


def test_a_checkpoint_with_overlapping_tensors_is_passed_over(tmp_path, images):
    """A moment whose elements all lie in one place has the right shape, and a fused optimiser would write past it."""
    config = replace(run_targets.settings("fast"), data=str(images), n=4)
    with contextlib.suppress(run_targets.Stopped):
        narrows.train(config, tmp_path / "run", listener=run_targets.StopsIn())
    newest = max((tmp_path / "run" / "checkpoints").glob("*.ckpt"))
    head = len(MAGIC) + 32
    state = torch.load(io.BytesIO(newest.read_bytes()[head:]), weights_only=True)
    for moments in state["optimiser"]["state"].values():
        for name, tensor in moments.items():
            if tensor.ndim:
                moments[name] = torch.zeros(1).expand(tensor.shape)
    content = io.BytesIO()
    torch.save(state, content)
    newest.write_bytes(MAGIC + hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    done = commands.run("resume", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert str(newest) in done.stderr
    assert "Traceback" not in done.stderr
