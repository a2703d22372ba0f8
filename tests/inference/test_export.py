"""Exported models compute what the model computes; every format of the command line is written."""

import inspect
import json
import subprocess
import sys
from typing import get_args

import numpy as np
import onnxruntime
import pytest
import torch

from disks import full_disk
from narrows import load_model
from narrows.cli import apply, main
from narrows.data import load
from narrows.inference.export import FORMATS


@pytest.fixture(scope="module")
def exported(table, tmp_path_factory):
    """The model of the table in every format."""
    out = tmp_path_factory.mktemp("exported")
    for to in FORMATS:
        assert main(["export", str(table / "run"), "--to", to, "-o", str(out / to)]) == 0
    return out


def parts(folder, x, z):
    sessions = [onnxruntime.InferenceSession(folder / f"{part}.onnx") for part in ("encoder", "decoder")]
    mean, log_std = sessions[0].run(None, {"x": x})
    (y,) = sessions[1].run(None, {"z": z})
    return mean, log_std, y


@pytest.mark.parametrize("which", ["digits", "table"])
def test_onnx_gives_the_same_on_real_inputs_in_batches_of_any_size(which, run, table, digits, exported, tmp_path):
    if which == "digits":
        folder, data, onnx = run, load(digits), tmp_path / "onnx"
        assert main(["export", str(run), "--to", "onnx", "-o", str(onnx)]) == 0
    else:
        folder, data, onnx = table / "run", load(table / "t.csv", columns=["height", "income"]), exported / "onnx"
    x = data.examples.batch(np.arange(100)).float()
    model = load_model(folder / "model.safetensors")
    posterior = model.encode(x)
    for count in (1, 7, 100):
        mean, log_std, y = parts(onnx, x[:count].numpy(), posterior.mean[:count].detach().numpy())
        np.testing.assert_allclose(mean, posterior.mean[:count].detach(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(log_std, posterior.log_std[:count].detach(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(y, model.decode(posterior.mean[:count]).detach(), atol=1e-5, rtol=1e-5)
    assert json.loads((onnx / "about.json").read_text())["provisioned"] in (2, 4)


def test_a_torch_program_and_a_copy(exported):
    model = load_model(exported / "safetensors" / "model.safetensors")
    z = torch.randn(5, model.n)
    program = torch.export.load(exported / "torch" / "decoder.pt2").module()
    torch.testing.assert_close(program(z), model.decode(z).float())


def test_the_command_line_offers_the_formats_that_are_written(exported):
    assert get_args(inspect.signature(apply.export).parameters["to"].annotation) == FORMATS
    files = {folder.name: sorted(path.name for path in folder.iterdir()) for folder in exported.iterdir()}
    assert files == {
        "onnx": ["about.json", "decoder.onnx", "encoder.onnx"],
        "torch": ["about.json", "decoder.pt2", "encoder.pt2"],
        "safetensors": ["about.json", "model.safetensors"],
    }


def test_without_onnx_the_error_says_what_to_install(run, tmp_path):
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'onnx' else real(name, *a)\n"
        "from narrows.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "export", str(run), "--to", "onnx", "-o", str(tmp_path / "e")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "ONNX files need onnx: pip install 'narrows[onnx]'" in done.stderr


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("size", [0, 4096])
def test_a_full_disk_is_one_line_and_leaves_nothing(run, tmp_path, capsys, to, size):
    """torch's own writer of files ended the process with a C++ trace; about.json alone is more than 0 bytes."""
    with full_disk(size):
        code = main(["export", str(run), "--to", to, "-o", str(tmp_path / "e")])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err == f"narrows: error: cannot write {tmp_path / 'e'}: File too large; choose another --out\n"
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []
