"""The table of bad calls: everything that Python users import, called as it should not be.

`TABLE` has the bad calls, grouped by object in calls/. `ACCEPTED` has calls that look unusual and must work: numbers of
numpy and torch, lists for tuples, paths as text.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

import narrows
from faults.calls.constraint import CERTIFICATE, CONSTRAINT, OBJECTIVE
from faults.calls.displays import DISPLAYS, draw
from faults.calls.estimator import ESTIMATOR
from faults.calls.frame import Case, Good, N
from faults.calls.gates import GATES, PRUNING
from faults.calls.models import MODELS, NETWORKS
from faults.calls.recipes import FAST, RECIPES, fast
from faults.calls.runs import INFERENCE, RUNS
from faults.calls.sweeps import SWEEPS
from faults.calls.training import DATA, TRAINING
from narrows import (
    Controller,
    ControllerConfig,
    FrontFolder,
    Gate,
    GatedVAE,
    Geco,
    GecoConfig,
    L0Gates,
    Muon,
    NarrowVAE,
    NetworkConfig,
    Pretrained,
    RunFolder,
    Terms,
    TrainConfig,
    draw_noise,
    gated_vae,
    make_optimiser,
)
from narrows.estimator.settings import settings_of
from narrows.gates.l0 import draw_uniform
from narrows.networks import Scaling
from narrows.networks.pruning import with_inputs, with_outputs

TABLE: list[Case] = [
    *GATES,
    *PRUNING,
    *NETWORKS,
    *MODELS,
    *CONSTRAINT,
    *OBJECTIVE,
    *RECIPES,
    *FAST,
    *CERTIFICATE,
    *DATA,
    *TRAINING,
    *SWEEPS,
    *RUNS,
    *INFERENCE,
    *ESTIMATOR,
    *DISPLAYS,
]

ACCEPTED: dict[str, Callable[[Good], object]] = {
    "L0Gates(numpy)": lambda g: L0Gates(np.int64(3), np.float32(7), np.float64(0.4)),
    "L0Gates(tensor)": lambda g: L0Gates(torch.tensor(3)),
    "close(array)": lambda g: L0Gates(4).close(np.array([0, 3])),
    "Gate(numpy)": lambda g: Gate(np.int32(3), np.int64(-1)),
    "draw_uniform(numpy)": lambda g: draw_uniform(np.int64(4), np.int64(3), g.generator),
    "with_outputs(range)": lambda g: with_outputs(nn.Linear(2, 3), range(2)),
    "with_inputs(array)": lambda g: with_inputs(nn.Linear(2, 3), np.array([1])),
    "NetworkConfig(numpy)": lambda g: gated_vae(
        NetworkConfig("mlp", np.array([4]), np.int64(2), np.int32(1), direct=np.True_)
    ),
    "NetworkConfig(list)": lambda g: gated_vae(NetworkConfig("conv", [1, 16, 16], 2, 1)),
    "Scaling(Size)": lambda g: Scaling("linear", g.x.shape[1:]).fit(g.x.mean(0), g.x.std()),
    "GatedVAE(numpy)": lambda g: GatedVAE(g.encoder, g.decoder, np.int64(N)),
    "GatedVAE(list)": lambda g: GatedVAE(nn.Conv2d(3, 8, 1), nn.Conv2d(4, 3, 1), [4, np.int64(2), 2]),
    "GatedVAE(whole numbers)": lambda g: GatedVAE(
        nn.Sequential(nn.Embedding(9, 5), nn.Linear(5, 2 * N)), nn.Linear(N, 3), N
    ).encode(torch.arange(9)),
    "sample(numpy)": lambda g: g.vae.sample(np.int64(3), g.generator),
    "narrow(array)": lambda g: g.vae.narrow(np.array([2, 0])),
    "narrow(tensor)": lambda g: g.vae.narrow(torch.tensor([2, 0])),
    "narrow(nothing)": lambda g: g.vae.narrow([]).sample(2),
    "save_model(text)": lambda g: narrows.save_model(g.vae, str(g.folder / "again.safetensors"), {"tau": 3}),
    "save_model(Path)": lambda g: narrows.save_model(g.vae, g.folder / "again.safetensors"),
    "save_model(0 dimensions)": lambda g: narrows.save_model(g.vae.narrow([]), g.folder / "none.safetensors"),
    "load_model(text)": lambda g: narrows.load_model(str(g.file)).sample(2),
    "load_model(Path)": lambda g: narrows.load_model(g.file),
    "read_description(text)": lambda g: narrows.read_description(str(g.file)),
    "Geco(tensor)": lambda g: Geco(torch.tensor([1.0, 2.0]), GecoConfig(np.float32(0.9), relative_scale=np.float64(1))),
    "Geco(large)": lambda g: Geco(np.float32(3), GecoConfig(highest=1e12)).project(),
    "Geco.forward(columns)": lambda g: Geco([1.0, 2.0])(torch.rand(2, 5).T),
    "draw_noise(numpy)": lambda g: draw_noise(np.int64(4), np.int64(N), g.generator),
    "draw_noise(list)": lambda g: draw_noise(4, [N, 2, 2], g.generator, "batch"),
    "Controller(numpy)": lambda g: Controller(ControllerConfig(np.int64(5), np.float32(1)), np.int64(9), np.True_),
    "Fast(numpy)": lambda g: fast(
        g, tolerance=np.float64(2), split_sizes=[np.int64(9), 9], aim=np.float32(0.5), seed=np.int64(1)
    ),
    "Fast(no bound)": lambda g: fast(g, tolerance=None, aim=1),
    "Fast(columns)": lambda g: fast(g, tolerance=(1, 2), error=lambda x, y: torch.stack([(x - y).sum(1)] * 2).T)(
        g.x, g.fast.noise(60, g.generator)
    ),
    "make_optimiser(numpy)": lambda g: make_optimiser(g.narrowing, np.float64(1e-3)),
    "Muon(parameters)": lambda g: Muon(list(g.encoder.parameters()), np.float32(1e-3)),
    "Terms(numpy)": lambda g: Terms(np.float64(0.9), np.float32(9)).upper(torch.tensor([1.0, 2.0]), np.float32(1)),
    "Terms.upper(list)": lambda g: Terms().upper([1, 2, 3]),
    "TrainConfig(numpy)": lambda g: TrainConfig(tau=np.float32(1), n=np.int64(4), batch=np.int32(8)).checked(),
    "resume(text)": lambda g: narrows.resume(str(g.run)),
    "RunFolder(text)": lambda g: RunFolder(str(g.run)).read_config(),
    "FrontFolder(text)": lambda g: FrontFolder("front").level(np.float64(3)),
    "write_report(text)": lambda g: narrows.write_report(str(g.run), None, str(g.folder / "report.html")),
    "write_report(Path)": lambda g: narrows.write_report(g.run, out=g.folder / "report.html"),
    "write_report(RunFolder)": lambda g: narrows.write_report(RunFolder(g.run), narrows.from_array(g.x, "any")),
    "evaluate(text)": lambda g: narrows.evaluate(
        str(g.run), samples=np.int64(20), components=np.int64(2), data=narrows.from_array(g.x, "any")
    ),
    "Sampler.draw(numpy)": lambda g: g.sampler.draw(np.int64(3), g.generator),
    "Pretrained(text)": lambda g: Pretrained(str(g.run)).save_pretrained(str(g.folder / "shared")),
    "Pretrained.of(Path)": lambda g: Pretrained.of(g.run),
    "from_pretrained(Path)": lambda g: Pretrained.from_pretrained(g.run),
    "NarrowVAE(numpy)": lambda g: settings_of(NarrowVAE(np.int64(3), explained=np.float32(0.5), verbose=np.False_)),
    "TraversalDisplay(numpy)": lambda g: draw(
        narrows.TraversalDisplay, g.fitted, g, dimensions=np.array([1]), image_shape=np.array([2, 3])
    ),
    "CodesDisplay(list)": lambda g: draw(
        narrows.CodesDisplay, g.fitted, g, y=g.x[:, 0].tolist(), dimensions=[np.int64(1), 0]
    ),
    "NarrowingDisplay(text)": lambda g: narrows.NarrowingDisplay.from_run(str(g.run)),
}
"""Calls that must work."""
