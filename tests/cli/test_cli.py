"""The command line as a user meets it: a whole run, its folder, and every bad input with one clear line."""

import dataclasses
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from commands import SMALL, command, in_a_terminal, run, small
from narrows._version import __version__
from narrows.cli import main
from narrows.model.storage import load_model
from narrows.runs.folder import RunFolder
from narrows.runs.records import MetricRow


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory) -> tuple[RunFolder, str]:
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "one")
    done = run("train", images, "--tau", 30, "--steps", 120, "--out", folder.path, *SMALL)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_run_leaves_everything_the_contract_names(finished):
    folder, _ = finished
    names = {p.name for p in folder.path.iterdir()}
    assert names == {
        "config.json", "request.json", "metrics.csv", "result.json", "model.safetensors", "checkpoints", "curves.png",
        "curves.svg", "report.html",
    }  # fmt: skip
    lines = folder.metrics.read_text().splitlines()
    assert lines[0].split(",") == MetricRow.columns()
    assert lines[0] == "step,error,gate_sum,open,lambda,hits,kl,loss,seconds,watched"
    assert [int(line.split(",")[0]) for line in lines[1:]] == [*range(7, 120, 7), 120]
    assert folder.figure.read_bytes().startswith(b"\x89PNG")


def test_the_result_says_what_the_model_is(finished, images):
    folder, stdout = finished
    result = json.loads(folder.result.read_text())
    for key in ("n", "dims", "kept", "tau", "heldout", "met", "steps", "seconds", "seed", "versions"):
        assert key in result
    assert set(result["heldout"]) == {"error", "high", "error_at_mean", "count", "spread"}
    assert result["heldout"]["count"] == 30
    model = load_model(folder.model)
    assert model.n == result["dims"] == len(result["kept"])
    assert f"model:  {folder.model}" in stdout
    assert f"figure: {folder.figure}" in stdout
    assert f"report: {folder.report}" in stdout
    # The certificate can be repeated from the files alone: the same split, the saved model.
    from narrows.data import load, split
    from narrows.training.validation import per_input

    data = load(images)
    again, _ = per_input(model, data.examples, split(data, 0).test, seed=2)
    assert again.mean() == pytest.approx(result["heldout"]["error"], rel=1e-5)


def test_show_repeats_the_answer(finished):
    folder, stdout = finished
    shown = run("show", folder.path)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0] in stdout
    assert json.loads(run("show", folder.path, "--json").stdout) == json.loads(folder.result.read_text())


def test_the_stored_config_starts_the_same_run_again(finished, tmp_path):
    folder, _ = finished
    assert main(["train", "--config", str(folder.config), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == folder.model.read_bytes()


def test_the_command_line_wins_over_the_config_file(images, tmp_path):
    (tmp_path / "c.toml").write_text('tau = 40\nsteps = 5\nn = 3\nbatch = 16\nwidth = 2\ndevice = "cpu"\n')
    done = main(["train", str(images), "--config", str(tmp_path / "c.toml"), "--n", "2", "--out", str(tmp_path / "r")])
    assert done == 0
    config = RunFolder(tmp_path / "r").read_config()
    assert (config["tau"], config["steps"], config["n"]) == (40, 5, 2)


def test_tau_that_cannot_be_reached_is_said_plainly_and_the_last_model_saved(images, tmp_path, capsys):
    assert main(["train", str(images), "--tau", "0.001", "--steps", "20", "--out", str(tmp_path / "r"), *SMALL]) == 0
    out = capsys.readouterr().out
    assert "tau was not reached: the best error is" in out
    assert "with 4 of 4 dimensions" in out
    assert "raise tau or n, or train longer" in out
    result = RunFolder(tmp_path / "r").read_result()
    assert (result.met, result.model) == (False, "last")
    assert load_model(tmp_path / "r" / "model.safetensors").n == 4


def test_a_constant_set_trains_and_meets_tau(tmp_path):
    np.save(tmp_path / "flat.npy", np.full((300, 6), 0.25, np.float32))
    settings = ["--tau", "0.1", "--steps", "400", *SMALL]
    assert main(["train", str(tmp_path / "flat.npy"), "--out", str(tmp_path / "r"), *settings]) == 0
    assert RunFolder(tmp_path / "r").read_result().met


def test_values_of_any_size_are_standardised_inside(tmp_path):
    rng = np.random.default_rng(0)
    x = (5000 + 300 * rng.standard_normal((400, 2)) @ rng.standard_normal((2, 6))).astype(np.float32)
    np.save(tmp_path / "big.npy", x)
    arguments = ["train", str(tmp_path / "big.npy"), "--values", "any", "--tau", "3e5", "--steps", "200"]
    assert main([*arguments, "--out", str(tmp_path / "r"), *SMALL]) == 0
    assert RunFolder(tmp_path / "r").read_result().met
    model = load_model(tmp_path / "r" / "model.safetensors")
    assert abs(model.reconstruct(torch.from_numpy(x[:50])).mean().item() - 5000) < 300


def test_default_folders_are_numbered(images, tmp_path):
    for number in (1, 2):
        done = run("train", images, "--tau", 30, "--steps", 2, *SMALL, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "runs" / f"squares-{number}" / "result.json").exists()


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    for option in (
        "tau", "tau-per-value", "explained", "as-good-as", "error", "certificate", "confidence",
        "effort", "n", "steps", "batch", "width",
        "recipe", "estimator", "seed", "out", "threads", "device", "config",
    ):  # fmt: skip
        assert f"--{option}" in text
    assert "narrows train my.npy --explained 0.95" in text


def test_help_does_not_load_torch():
    code = "import sys; from narrows.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([command()[0], "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_terminal_gets_a_live_view(images, tmp_path):
    code, text = in_a_terminal("train", images, "--tau", 30, "--steps", 40, "--out", tmp_path / "r", *SMALL)
    assert code == 0
    for fact in ("of 40", "error", "tau 30", "open", "lambda", "hits", "batches/s"):
        assert fact in text


def test_loading_that_fails_gives_the_terminal_back(tmp_path, monkeypatch):
    """The bar of the loading hides the cursor; the error must find it shown again."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pictures").mkdir()
    for i in range(600):
        Image.new("L", (16, 16), i % 256).save(tmp_path / "pictures" / f"{i}.png")
    (tmp_path / "pictures" / "broken.png").write_bytes(b"no picture")
    code, text = in_a_terminal("train", tmp_path / "pictures", "--tau", 30)
    assert code == 2
    assert text.rindex("\x1b[?25l") < text.rindex("\x1b[?25h") < text.index("narrows: error: ")


def save(path: Path, array: object) -> str:
    np.save(path, array, allow_pickle=True)
    return str(path)


GOOD = np.random.default_rng(0).random((200, 6)).astype(np.float32)


def poison(value: float) -> np.ndarray:
    array = GOOD.copy()
    array[7, 2] = value
    return array


BAD_INPUT = {
    "no such file": (lambda t: ["missing.npy"], "no such file, folder or set: 'missing.npy'"),
    "wrong dtype": (lambda t: [save(t / "x.npy", GOOD.astype(np.int64))], "dtype int64 is not accepted"),
    "pickled objects": (lambda t: [save(t / "x.npy", np.array([{}], object))], "dtype object is not accepted"),
    "NaN": (lambda t: [save(t / "x.npy", poison(np.nan))], "NaN or infinite, first in example 7"),
    "infinite": (lambda t: [save(t / "x.npy", poison(np.inf))], "NaN or infinite, first in example 7"),
    "outside [0, 1]": (lambda t: [save(t / "x.npy", poison(3.5))], "outside [0, 1]"),
    "empty array": (lambda t: [save(t / "x.npy", GOOD[:0])], "is empty"),
    "wrong rank": (lambda t: [save(t / "x.npy", GOOD[0])], "rank 1"),
    "fewer than a batch": (lambda t: [save(t / "x.npy", GOOD[:40])], "batch"),
    "not a npy": (lambda t: [str(_text(t / "x.npy"))], "damaged or not a .npy file"),
    "no tau": (lambda t: [save(t / "x.npy", GOOD), "--tau="], "--tau"),
    "tau zero": (lambda t: ["--tau", "0"], "--tau must be a number above 0"),
    "tau negative": (lambda t: ["--tau", "-3"], "--tau must be a number above 0"),
    "tau nan": (lambda t: ["--tau", "nan"], "--tau must be a number above 0"),
    "tau text": (lambda t: ["--tau", "low"], "--tau"),
    "two promises": (
        lambda t: ["--tau", "3", "--explained", "0.9"],
        "give only one of --tau, --explained: each of them",
    ),
    "explained in percent": (lambda t: ["--explained", "95"], "between 0 and 1 (0.95 for 95%); it is 95"),
    "explained of another error": (
        lambda t: ["--explained", "0.9", "--error", "absolute"],
        "--explained is about squared errors",
    ),
    "as good as, with bad data": (lambda t: [save(t / "x.npy", poison(3.5)), "--as-good-as", "2"], "outside [0, 1]"),
    "as good as, with a bad network": (
        lambda t: [save(t / "x.npy", GOOD), "--as-good-as", "2", "--network", "conv"],
        "--network conv is for images",
    ),
    "as good as nothing": (lambda t: ["--as-good-as", "0"], "--as-good-as must be at least 1; it is 0"),
    "cross-entropy of any values": (
        lambda t: [save(t / "x.npy", GOOD * 3), "--values", "any", "--error", "cross-entropy"],
        "--error cross-entropy needs unscaled values in [0, 1]",
    ),
    "an estimator without sampling": (
        lambda t: ["--estimator", "disarm"],
        "--estimator disarm has no effect with --recipe fast, only with --recipe paper",
    ),
    "effort with the paper's recipe": (
        lambda t: ["--recipe", "paper", "--effort", "thorough"],
        "--effort thorough has no effect with --recipe paper, only with --recipe fast or plain",
    ),
    "data twice": (lambda t: ["mnist", "--data", "cars3d"], "the data are named twice, as mnist and as cars3d"),
    "effort": (lambda t: ["--effort", "heroic"], 'Invalid value "heroic" for --effort'),
    "n zero": (lambda t: ["--n", "0"], "--n must be at least 1; it is 0"),
    "half a dimension": (lambda t: ["--n", "2.5"], "--n must be a whole number or auto; it is 2.5"),
    "half a seed": (lambda t: ["--seed=1.5"], "--seed must be a whole number; it is 1.5"),
    "steps zero": (lambda t: ["--steps", "0"], "--steps must be at least 1"),
    "batch zero": (lambda t: ["--batch", "0"], "--batch must be at least 1"),
    "learning rate": (lambda t: ["--learning-rate", "0"], "--learning-rate must be a number above 0"),
    "aim": (lambda t: ["--aim", "1.5"], "--aim must be above 0 and at most 1"),
    "confidence in percent": (lambda t: ["--confidence", "95"], "--confidence must be from 0.5 to 0.999999"),
    "full confidence": (lambda t: ["--confidence", "1"], "--confidence must be from 0.5 to 0.999999"),
    "no confidence": (lambda t: ["--confidence", "0.05"], "--confidence must be from 0.5 to 0.999999"),
    "confidence nan": (lambda t: ["--confidence", "nan"], "--confidence must be from 0.5 to 0.999999"),
    "exact without a limit": (
        lambda t: [save(t / "x.npy", GOOD), "--certificate", "exact"],
        "--certificate exact needs errors with a limit",
    ),
    "exact with too few rows": (
        lambda t: [save(t / "x.npy", np.zeros((200, 8, 8), np.uint8)), "--certificate", "exact"],
        "--certificate exact cannot be had: with 20 test inputs, whose errors can be as large as 64",
    ),
    "seed": (lambda t: ["--seed", "-1"], "--seed must be between 0"),
    "tau too small": (lambda t: ["--tau", "1e-50"], "--tau must be a number above 0"),
    "too many dimensions": (
        lambda t: [save(t / "x.npy", GOOD), "--n", "99999999999"],
        "--n must be a whole number from 0 to 1,000,000; it is 99999999999",
    ),
    "too large a model": (
        lambda t: [save(t / "x.npy", GOOD), "--width", "1000000"],
        "there is not enough memory for networks with --n 6 and --width 1000000 on examples of shape (6,); use",
    ),
    "huge values": (lambda t: [save(t / "x.npy", GOOD * 1e30), "--values", "any"], "rescale them"),
    "a small spread far from 0": (
        lambda t: [save(t / "x.npy", GOOD.astype(np.float64) * 0.1 + 1e6), "--values", "any"],
        "subtract each column's mean first",
    ),
    "a broken header": (lambda t: [str(_bytes(t / "x.npy"))], "damaged or not a .npy file"),
    "config of the wrong type": (lambda t: ["--config", str(_text(t / "c.toml", "n = 2.5"))], "a whole number"),
    "unknown recipe": (lambda t: ["--recipe", "magic"], 'Invalid value "magic" for --recipe'),
    "unknown option": (lambda t: ["--tua", "3"], "--tua"),
    "unknown device": (lambda t: [save(t / "x.npy", GOOD), "--device", "mps"], "--device mps is not available"),
    "conv on vectors": (
        lambda t: [save(t / "x.npy", GOOD), "--network", "conv"],
        "--network conv is for images with sides of 16 to 256",
    ),
    "no config file": (lambda t: ["--config", str(t / "no.toml")], "cannot read the config file"),
    "bad config file": (lambda t: ["--config", str(_text(t / "c.toml"))], "is not valid TOML"),
    "bad config name": (lambda t: ["--config", str(_text(t / "c.toml", "taw = 3"))], "did you mean 'tau'?"),
    "bad config value": (lambda t: ["--config", str(_text(t / "c.toml", 'n = "x"'))], "n"),
}


def _text(path: Path, content: str = "not = = what it says") -> Path:
    path.write_text(content)
    return path


def _bytes(path: Path) -> Path:
    """A .npy whose header cannot even be parsed."""
    save(path, GOOD)
    path.write_bytes(path.read_bytes().replace(b"(200, 6)", b"(200, 6,"))
    return path


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_gets_one_clear_line_and_exit_code_2(name, tmp_path, capsys):
    make, expected = BAD_INPUT[name]
    arguments = make(tmp_path)
    out = tmp_path / "out"
    defaults = (
        []
        if any(a.startswith(("--tau", "--config", "--explained", "--as-good-as")) for a in arguments)
        else ["--tau", "0.1"]
    )
    code = main(["train", *arguments, *defaults, "--out", str(out)])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith("narrows: error: ")
    assert captured.err.count("\n") == 1
    assert expected in captured.err
    assert not out.exists(), "nothing may be left behind"


def test_own_data_without_tau_says_what_a_sensible_one_is(tmp_path, capsys):
    assert main(["train", save(tmp_path / "x.npy", GOOD), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "x needs a promise about the error: --tau" in error
    assert "decoding everything to the mean has a squared error of 0.5" in error
    assert "--explained 0.95 is --tau 0.02" in error
    assert not (tmp_path / "out").exists()


def test_an_existing_run_is_never_overwritten(finished, images, capsys):
    folder, _ = finished
    before = {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}
    assert main(["train", str(images), "--tau", "30", "--steps", "2", "--out", str(folder.path), *SMALL]) == 2
    error = capsys.readouterr().err
    assert "exists and is not empty" in error
    assert f"narrows resume {folder.path}" in error
    assert {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()} == before


def test_an_unwritable_out_folder(images, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert (
        main(["train", str(images), "--tau", "30", "--steps", "2", "--out", str(tmp_path / "file" / "run"), *SMALL])
        == 2
    )
    error = capsys.readouterr().err
    assert f"cannot create the folder {tmp_path / 'file' / 'run'}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("verb", ["resume", "show"])
def test_a_folder_that_is_no_run(verb, tmp_path, capsys):
    assert main([verb, str(tmp_path)]) == 2
    assert f"{tmp_path} is not a run folder" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{half")
    assert main([verb, str(tmp_path)]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_mixed_precision_trains(images, tmp_path):
    """In a process of its own: accelerate allows one precision a process."""
    done = run("train", images, "--tau", 180, "--steps", 40, "--precision", "bfloat16", "--out", tmp_path / "r", *SMALL)
    assert done.returncode == 0, done.stderr
    assert RunFolder(tmp_path / "r").read_result().met


@pytest.mark.parametrize("log_every", ["1", "1000"])
def test_a_run_that_diverges_says_so_and_leaves_no_answer(images, tmp_path, capsys, log_every):
    arguments = ["--tau", "30", "--learning-rate", "1e25", "--steps", "60", "--out", str(tmp_path / "r")]
    assert main(["train", str(images), *arguments, *small(log_every=log_every)]) == 2
    error = capsys.readouterr().err
    assert "training diverged" in error
    assert "start again with a --learning-rate below 1e+25" in error
    assert not (tmp_path / "r" / "result.json").exists()


def test_a_closed_pipe_does_not_end_the_training(images, tmp_path):
    arguments = command("train", images, "--tau", 30, "--steps", 60, "--out", tmp_path / "r", *SMALL)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0, error
    assert b"Traceback" not in error
    assert RunFolder(tmp_path / "r").read_result() is not None


def test_names_with_brackets_are_shown_as_they_are(tmp_path):
    """On a terminal too, where the listener knows a markup that uses brackets."""
    from narrows.report.live.listeners import terminal_listener
    from narrows.training.config import TrainConfig
    from narrows.training.listeners import RunStart

    listener = terminal_listener()
    listener.begin(RunStart(TrainConfig(tau=1.0), None, ["data: a[/b][bold].npy"], 0))
    listener.end()


def test_python_takes_arrays_and_numpys_numbers(tmp_path):
    import narrows

    config = narrows.TrainConfig(tau=np.float32(0.5), n=np.int64(3), steps=20, width=2, batch=16, device="cpu")
    config = dataclasses.replace(config, recipe="paper")
    outcome = narrows.train(config, tmp_path / "r", GOOD)
    result, folder = outcome.result, outcome.folder
    assert result.n == 3
    result = narrows.resume(folder.path, steps=30, data=torch.from_numpy(GOOD)).result
    assert result.steps == 30
    with pytest.raises(narrows.NarrowsError, match=r"^n must be a whole number; it is 'three'"):
        narrows.train(narrows.TrainConfig(n="three"), tmp_path / "other", GOOD)
    assert not (tmp_path / "other").exists()
