"""A run's data are read for its model only if they are the ones it was trained on: a stranger's run could name any."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from http_server import LocalServer
from narrows import NarrowsError
from narrows.cli import main
from narrows.evaluation.evaluate import evaluate
from narrows.explorer.models import open_explorer
from narrows.inference.trained import open_data, open_trained, was_named
from narrows.model.storage import read_description
from narrows.report.comparison import write_comparison
from narrows.report.run_page import write_report
from narrows.runs.folder import RunFolder

REFUSED = "has no fingerprint of the data it was trained on, so {data}, which its run names, is not opened: "


@pytest.fixture
def theirs(run, digits, tmp_path):
    """A run without the fingerprint of its data, whose settings name a file of the user's."""
    out = tmp_path / "theirs"
    shutil.copytree(run, out)
    path = out / "model.safetensors"
    about = read_description(path)
    del about["fingerprint"]
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, {"narrows": json.dumps(about)})
    private = tmp_path / "private.npy"
    shutil.copy(digits, private)
    settings = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**settings, "data": str(private)}))
    (out / "report.html").unlink()
    return out, private


def pictures(page: Path) -> int:
    """Return how many pictures of test inputs a page has."""
    return page.read_text().count("their reconstructions")


def test_no_command_opens_data_without_a_fingerprint(theirs, tmp_path, capsys):
    run, private = theirs
    out = tmp_path / "out.npy"
    for words in (["encode"], ["reconstruct"], ["sample", "--sampler", "gaussian"], ["evaluate", "--samples", "20"]):
        more = [] if words[0] == "evaluate" else ["-o", str(out)]
        assert main([words[0], str(run), *words[1:], *more]) == 2
        error = capsys.readouterr().err
        assert REFUSED.format(data=private) in error
        assert "use --trust-data if you trust it" in error
        assert not out.exists()
        assert main([words[0], str(run), *words[1:], *more, "--trust-data"]) == 0
        out.unlink(missing_ok=True)
        capsys.readouterr()


def test_a_report_says_so_and_shows_nothing(theirs, capsys):
    run, private = theirs
    assert main(["report", str(run)]) == 0
    assert pictures(run / "report.html") == 0
    assert REFUSED.format(data=private) in (run / "report.html").read_text()
    assert "use --trust-data if you trust it" in (run / "report.html").read_text()
    assert main(["report", str(run), "--trust-data"]) == 0
    assert pictures(run / "report.html") == 3


def test_in_python(theirs, run, tmp_path):
    folder, private = theirs
    with pytest.raises(NarrowsError, match="use trust_data if you trust it"):
        open_data(open_trained(folder))
    with pytest.raises(NarrowsError, match="has no fingerprint"):
        evaluate(folder, samples=20)
    assert len(open_data(open_trained(folder, trust_data=True)).examples) == len(np.load(private))
    assert len(open_data(open_trained(folder), str(private)).examples) == len(np.load(private))  # named by the user
    assert REFUSED.format(data=private) in open_explorer(folder).inputs.missing
    assert len(open_explorer(folder, trust_data=True).inputs.held)
    both, page = [RunFolder(folder), RunFolder(run)], tmp_path / "compare.html"
    write_comparison(both, page)
    assert REFUSED.format(data=private) in page.read_text()
    assert "test inputs, and below them" not in page.read_text()
    write_comparison(both, page, trust_data=True)
    assert "test inputs, and below them" in page.read_text()
    write_report(RunFolder(folder), trust_data=True)
    assert pictures(folder / "report.html") == 3


@pytest.fixture
def elsewhere(theirs):
    """A run whose settings name an address, and the server there."""
    folder, _ = theirs
    with LocalServer() as server:
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**settings, "data": f"{server.url}/part-{{0..3}}.npy"}))
        yield folder, server


def test_no_command_asks_a_server_that_a_strangers_run_names(elsewhere, run, tmp_path, capsys):
    folder, server = elsewhere
    shutil.copy(run / "model.safetensors", folder)  # with a fingerprint
    for words in (["encode", "-o", str(tmp_path / "z.npy")], ["evaluate", "--samples", "20"]):
        assert main([words[0], str(folder), *words[1:]]) == 2
        error = capsys.readouterr().err
        assert "is on another machine, and a run from someone else could name any server" in error
        assert "use --trust-data if it may be asked" in error
    write_report(RunFolder(folder))
    assert pictures(folder / "report.html") == 0
    assert "is on another machine" in open_explorer(folder).inputs.missing
    assert server.requests == []
    assert main(["encode", str(folder), "-o", str(tmp_path / "z.npy"), "--trust-data"]) == 2
    assert "does not exist (HTTP 404)" in capsys.readouterr().err
    assert server.requests


def test_an_address_that_the_user_has_just_given_may_be_asked(elsewhere):
    folder, server = elsewhere
    assert was_named(RunFolder(folder), [f"{server.url}/part-{{0..3}}.npy"])
    assert not was_named(RunFolder(folder), [f"{server.url}/part-{{0..4}}.npy"])
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "data": "my.npy"}))
    assert not was_named(RunFolder(folder), ["my.npy"]), "files are compared by their fingerprint"


def test_data_with_another_fingerprint_are_refused_even_then(run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    settings = json.loads((out / "config.json").read_text())
    np.save(tmp_path / "other.npy", np.random.default_rng(0).integers(0, 256, (50, 28, 28), np.uint8))
    (out / "config.json").write_text(json.dumps({**settings, "data": str(tmp_path / "other.npy")}))
    for trust in (False, True):
        with pytest.raises(NarrowsError, match=r"other is not what .* was trained on"):
            open_data(open_trained(out, trust))


def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    for open_it in (open_trained, read_description):
        with pytest.raises(NarrowsError, match="is a named pipe, not a file"):
            open_it(tmp_path / "model.safetensors")
    os.mkfifo(tmp_path / "config.json")
    for name in ("config.json", "model.safetensors"):
        assert main(["train", "mnist", "--config", str(tmp_path / name)]) == 2
