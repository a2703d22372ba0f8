"""The fast recipe from the command line: it ends by itself, goes on bit for bit, and takes the promise in any words."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from commands import run, run_until, small
from narrows._util.errors import NarrowsError
from narrows.cli import main
from narrows.data import load, split
from narrows.model.storage import load_model
from narrows.objective import absolute_error, cross_entropy
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder
from narrows.training.config import TrainConfig
from narrows.training.front import resume_front, train_front
from narrows.training.validation import per_input
from same_run import assert_same, final_state

FAST = small(recipe="fast", n=5, log_every=50, eval_every=100, checkpoint_every=100)


@pytest.fixture(scope="module")
def plane(tmp_path_factory) -> Path:
    """600 points of a bent plane in R^8, in [0, 1]."""
    t = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    mix = np.random.default_rng(1).normal(size=(2, 8))
    x = t @ mix + 0.3 * np.sin(2 * t @ mix[:, ::-1])
    path = tmp_path_factory.mktemp("data") / "plane.npy"
    np.save(path, ((x - x.min()) / (x.max() - x.min())).astype(np.float32))
    return path


def variance(path: Path) -> float:
    data = load(path)
    return float(np.load(path)[split(data, 0).train].astype(np.float64).var(axis=0).sum())


@pytest.fixture(scope="module")
def whole(plane, tmp_path_factory) -> RunFolder:
    """A run that nothing disturbed."""
    folder = RunFolder(tmp_path_factory.mktemp("whole") / "run")
    assert main(["train", str(plane), "--explained", "0.9", "--out", str(folder.path), *FAST]) == 0
    return folder


def test_it_finds_the_plane_and_ends_by_itself(whole):
    result = whole.read_result()
    assert (result.dims, result.met) == (2, True)
    decisions = whole.read_decisions()
    assert [d.action for d in decisions][-2:] == ["release", "end"]
    assert decisions[-1].step == result.steps == result.model_step
    assert decisions[0].action == "close"
    assert decisions[0].open == 5
    assert {d.action for d in decisions} == {"close", "restore", "release", "end"}
    assert whole.read_config()["steps"] == "auto"


def test_the_number_is_not_a_moment_that_passed(whole):
    """From the release on, the open gates are those of the answer."""
    result = whole.read_result()
    release = next(d for d in whole.read_decisions() if d.action == "release")
    assert release.open == result.dims
    assert all(row.open == result.dims for row in whole.read_rows() if row.step > release.step)


def test_costs_are_logged_and_empty_once_closed(whole):
    header, *rows = (line.split(",") for line in whole.costs.read_text().splitlines())
    assert header == ["step", "0", "1", "2", "3", "4"]
    assert [int(row[0]) for row in rows] == [row.step for row in whole.read_rows()]
    result = whole.read_result()
    for gate, cell in enumerate(rows[-1][1:]):
        assert (cell != "") == (gate in result.kept)
    costs = {d.kept: d.cost for d in result.dimensions}
    last = {gate: float(rows[-1][1 + gate]) for gate in result.kept}
    assert last == pytest.approx(costs, rel=0.3), "measured on the way and, on the test split, at the end"


def test_the_promise_in_every_word_is_the_same_tau(whole, plane, tmp_path):
    tau = whole.read_config()["tau"]
    assert tau == pytest.approx(0.1 * variance(plane), rel=1e-5)
    arguments = ["train", str(plane), "--steps", "5", *FAST]
    assert main([*arguments, "--tau-per-value", str(tau / 8), "--out", str(tmp_path / "a")]) == 0
    assert RunFolder(tmp_path / "a").read_config()["tau"] == pytest.approx(tau)
    arguments = ["train", str(plane), "--steps", "5", "--recipe", "plain", *[a for a in FAST if "recipe" not in a]]
    assert main([*arguments, "--explained", "0.9", "--out", str(tmp_path / "plain")]) == 0
    assert RunFolder(tmp_path / "plain").read_config()["tau"] == pytest.approx(tau)
    # What the command line promises takes the place of what the file does.
    config = ["--config", str(whole.config), "--explained", "0.8", "--steps", "5"]
    assert main(["train", *config, "--out", str(tmp_path / "b")]) == 0
    assert RunFolder(tmp_path / "b").read_config()["tau"] == pytest.approx(2 * tau, rel=1e-5)


def kill_after(step: int, folder: Path, *arguments: object) -> None:
    """Run a command that is killed after a certain batch of the run in `folder`."""
    killed = run_until(signal.SIGKILL, step, folder, *arguments)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def test_a_run_killed_three_times_continues_bit_for_bit(whole, plane, tmp_path):
    """It goes on from before the first closing, from between a closing and its undoing, and from the last phase."""
    out = RunFolder(tmp_path / "killed")
    at = {action: [d.step for d in whole.read_decisions() if d.action == action] for action in ("close", "restore")}
    release = next(d.step for d in whole.read_decisions() if d.action == "release")
    first, last, restored = at["close"][0], at["close"][-1], at["restore"][0]
    assert first > 100, "a checkpoint comes before"
    assert last // 100 < (restored - 5) // 100, "and between"
    kill_after(first + 3, out.path, "train", plane, "--explained", "0.9", "--out", out.path, *FAST)
    kill_after(restored - 5, out.path, "resume", out.path)
    kill_after(release + 333, out.path, "resume", out.path)
    assert out.read_result() is None
    assert run("resume", out.path).returncode == 0
    assert_same(final_state(whole), final_state(out))
    assert out.model.read_bytes() == whole.model.read_bytes()
    assert out.decisions.read_bytes() == whole.decisions.read_bytes()
    assert out.costs.read_bytes() == whole.costs.read_bytes()
    assert out.read_result().heldout == whole.read_result().heldout


def test_a_run_that_ended_by_itself_is_shown_again_not_trained(whole, capsys):
    before = whole.result.read_bytes()
    assert main(["resume", str(whole.path)]) == 0
    assert whole.result.read_bytes() == before
    assert main(["resume", str(whole.path), "--steps", "9000"]) == 2
    error = capsys.readouterr().err
    assert "has had its last phase and cannot continue" in error
    assert error.count("\n") == 1
    assert whole.result.read_bytes() == before


def test_a_given_number_of_batches_is_kept_to(plane, tmp_path):
    assert main(["train", str(plane), "--explained", "0.9", "--steps", "500", "--out", str(tmp_path / "r"), *FAST]) == 0
    folder = RunFolder(tmp_path / "r")
    assert folder.read_result().steps == 500
    release = next(d for d in folder.read_decisions() if d.action == "release")
    assert release.step <= 410, "the last phase has its fifth of the run"
    assert main(["resume", str(folder.path), "--steps", "900"]) == 2
    assert folder.read_result().steps == 500


def test_as_good_as_a_plain_vae(plane, tmp_path):
    """Killed while the plain one trains, it goes on with it, and then trains the narrow one."""
    out = RunFolder(tmp_path / "run")
    kill_after(233, out.plain, "train", plane, "--as-good-as", "2", "--steps", "600", "--out", out.path, *FAST)
    assert run("show", out.path).returncode == 0
    done = run("resume", out.path)
    assert done.returncode == 0, done.stderr
    plain, narrow = RunFolder(out.plain).read_result(), out.read_result()
    assert (plain.n, plain.dims, plain.tau) == (2, 2, None)
    assert narrow.tau == plain.validation.high
    assert narrow.n == 5
    assert done.stdout.index("first, a plain VAE with 2 dimensions") < done.stdout.index("now from 5 dimensions")
    assert f"tau comes from the plain VAE with 2 dimensions in {out.plain}, whose error" in done.stdout
    assert "a plain VAE with 2 dimensions" in run("show", out.plain).stdout
    assert main(["resume", str(out.path)]) == 0
    assert out.read_result() == narrow


@pytest.mark.parametrize(("name", "error"), [("absolute", absolute_error), ("cross-entropy", cross_entropy)])
def test_other_errors_are_promised_and_certified(plane, tmp_path, name, error):
    arguments = ["--error", name, "--tau", "6", "--steps", "300", "--out", str(tmp_path / "r")]
    assert main(["train", str(plane), *arguments, *FAST]) == 0
    folder = RunFolder(tmp_path / "r")
    data = load(plane)
    again, _ = per_input(load_model(folder.model), data.examples, split(data, 0).test, seed=2, error=error)
    assert again.mean() == pytest.approx(folder.read_result().heldout.error, rel=1e-5)


TAUS = (0.02, 0.1)


@pytest.fixture(scope="module")
def front(plane, tmp_path_factory) -> FrontFolder:
    folder = FrontFolder(tmp_path_factory.mktemp("front") / "front")
    done = run("front", plane, "--taus", "0.1,0.02", "--steps", "900", "--out", folder.path, *FAST)
    assert done.returncode == 0, done.stderr
    assert "not done yet" not in done.stdout
    return folder


def test_a_front_has_a_model_for_every_tau_tightest_first(front, capsys):
    results = front.read_results()
    assert tuple(r.tau for r in results) == TAUS
    assert results[0].dims >= results[1].dims >= 1
    assert all(r.met for r in results)
    lines = front.table.read_text().splitlines()
    assert len(lines) == 3
    for result, line in zip(results, lines[1:], strict=True):
        assert load_model(front.path / line.split(",")[-1]).n == result.dims
    assert front.figure.read_bytes().startswith(b"\x89PNG")
    assert main(["show", str(front.path)]) == 0
    capsys.readouterr()
    assert main(["show", str(front.path), "--json"]) == 0
    assert [answer["dims"] for answer in json.loads(capsys.readouterr().out)] == [result.dims for result in results]


def test_a_front_takes_a_runs_settings_but_not_its_tau(front, tmp_path, capsys):
    config, out = front.level(0.02).config, tmp_path / "f"
    assert main(["front", "--config", str(config), "--taus", "0.3", "--steps", "100", "--out", str(out)]) == 0
    assert FrontFolder(out).read_results()[0].tau == 0.3
    assert FrontFolder(out).read_about()["config"]["n"] == 5
    assert f"figure: {out / 'front.png'}" in capsys.readouterr().out


def test_a_front_that_was_killed_continues_bit_for_bit(front, plane, tmp_path):
    """At the second tau, which begins where the first had found its size."""
    out = FrontFolder(tmp_path / "front")
    arguments = ("front", plane, "--taus", "0.02,0.1", "--steps", "900", "--out", out.path, *FAST)
    kill_after(433, out.level(0.1).path, *arguments)
    shown = run("show", out.path)
    assert "1 of 2 not done yet" in shown.stdout
    # A level alone is not to be gone on with: the front would miss the state that its next one begins with.
    assert f"continue it with `narrows resume {out.path}`" in run("show", out.level(0.1).path).stdout
    assert "is one tau of a front; continue with" in run("resume", out.level(0.1).path).stderr
    resumed = run("resume", out.path)
    assert resumed.returncode == 0, resumed.stderr
    for tau in TAUS:
        assert out.level(tau).model.read_bytes() == front.level(tau).model.read_bytes()
    assert out.table.read_bytes() == front.table.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--taus", "3,x"], "--taus must be numbers, such as 3,4,6; they are ['3', 'x']"),
        (["--taus", "3,-1"], "--taus must be numbers above 0"),
        (["--taus", "3,4,3.0"], "--taus has 3 more than once; give each tau once"),
        (["--taus", "3", "--explained", "0.5"], "leave --explained out"),
        (["--taus", "3", "--recipe", "paper"], "a front cannot be trained with --recipe paper"),
    ],
)
def test_bad_fronts_get_one_line(plane, tmp_path, capsys, arguments, expected):
    assert main(["front", str(plane), *arguments, "--out", str(tmp_path / "f")]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "f").exists()


def test_a_front_from_python_takes_an_array(tmp_path):
    x = np.random.default_rng(0).random((200, 1)).astype(np.float32) @ np.ones((1, 6), np.float32)
    config = TrainConfig(n=3, width=2, batch=16, steps=60, threads=1, device="cpu")
    front = train_front(config, np.array([0.3, 0.2]), tmp_path / "f", x)
    results, folder = front.results, front.folder
    assert [r.tau for r in results] == [0.2, 0.3]
    assert json.loads(folder.about.read_text())["taus"] == [0.2, 0.3]
    with pytest.raises(NarrowsError, match="which only Python can pass again"):
        resume_front(folder.path)
    for taus in (["a"], 5.0, [], [0.0], [np.nan]):
        with pytest.raises(NarrowsError, match="taus must be numbers"):
            train_front(config, taus, tmp_path / "g", x)
    assert not (tmp_path / "g").exists()
