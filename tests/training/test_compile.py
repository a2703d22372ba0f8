"""--compile: the same training with the same names, and one line where there is no compiler."""

import shutil

import pytest
import torch
from accelerate.state import AcceleratorState

from commands import run
from narrows.data import from_array
from narrows.data.synthetic import curved_manifold
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.trainer import Trainer


def trained(**settings):
    AcceleratorState._reset_state(True)
    config = TrainConfig(tau=0.5, n=4, width=2, batch=16, recipe="paper", device="cpu", **settings)
    trainer = Trainer(make_plan(config.checked(), from_array(curved_manifold(200, 2, 10), "unit")), Listener())
    for _ in range(2):
        trainer.train_batch()
    return trainer


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("default")  # of the compiler's own parts
def test_a_compiled_model_trains_as_any_other():
    compiled, plain = trained(compile=True), trained()
    assert compiled.model.encoder._compiled_call_impl is not None
    states = [trainer.objective.state_dict() for trainer in (compiled, plain)]
    assert list(states[0]) == list(states[1])
    for name, tensor in states[0].items():
        torch.testing.assert_close(tensor, states[1][name], rtol=1e-3, atol=1e-4)
    plain.load_state_dict(compiled.state_dict())
    plain.train_batch()


def test_without_a_compiler_one_line_says_so(tmp_path, images, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    done = run("train", images, "--tau", 50, "--device", "cpu", "--compile", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.startswith("narrows: error: --compile needs a C++ compiler that torch can use (")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
