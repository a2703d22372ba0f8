"""The examples find known answers. Here they run, with fewer batches where that is enough."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from commands import HANGS

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_run_here_or_with_the_documents():
    run = {"own_loop", "own_loop_accelerate", "spatial_latent", "hidden_layers", "recommender"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == run


def test_latent_map_keeps_one_channel_per_texture(capsys):
    module = example("spatial_latent")
    narrowed = module.main()
    assert narrowed.latent_shape == (module.CHANNELS, module.PLACES, module.PLACES)
    x = module.make_draw()(1_000, torch.Generator().manual_seed(9))
    error = (narrowed.reconstruct(x, torch.Generator().manual_seed(0)) - x).square().flatten(1).sum(1).mean()
    assert error <= 2.0
    assert "3 of 8 channels are enough" in capsys.readouterr().out


def test_hidden_layers_lose_most_of_their_units(capsys):
    small, error = example("hidden_layers").main(steps=2_500)
    sizes = [layer.out_features for layer in small.modules() if isinstance(layer, nn.Linear)]
    assert error <= 0.05
    assert all(units <= 12 for units in sizes[:-1])
    assert sizes[-1] == 3


def test_recommender_ends_at_its_rank(capsys):
    module = example("recommender")
    dims, tau, error = module.main()
    assert abs(dims - module.RANK) <= 1
    assert error <= tau


@pytest.mark.parametrize("processes", [1, 2])
def test_accelerate_on_several_processes(processes):
    """Two processes with half a batch each compute what one does; 1,200 batches are enough for this plane."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    code = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import own_loop_accelerate as m; m.main(steps=1_200)"
    script = [*launch, "--no-python", sys.executable, "-c", code]
    done = subprocess.run(script, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"(\d) processes: the data need (\d) dimensions", done.stdout) == [(str(processes), "2")]
