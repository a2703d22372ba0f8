"""Bad calls, each with the start of the one line that must answer it, and objects in order to make them with.

    each(what, says, call, values)      one case per value: `call(good, value)` must raise, and the line names the value
    one(what, says, call)               one case: `call(good)` must raise

`good` has an object of every kind that is in order (`Good`), so that only one thing is wrong with a call. `says` is a
regular expression that the line must begin with.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import narrows
from narrows import (
    Fast,
    GatedVAE,
    Geco,
    HiddenNarrowing,
    L0Gates,
    Narrowing,
    NarrowsError,
    NarrowVAE,
    NetworkConfig,
    Sampler,
    TrainConfig,
    gate,
    gated_vae,
)
from narrows._util.text import brief
from narrows.gates.l0 import draw_uniform

NAN, INF, HUGE = math.nan, math.inf, 10**400
N, VALUES = 4, 6
"""Latent dimensions and values of the examples that `Good` has."""

NOT_COUNTS = (None, "4", "", 0, -1, 2.5, NAN, INF, True, [4], np.array([1, 2]), torch.zeros(2))
NOT_SIZES = (*NOT_COUNTS, HUGE)
NOT_NUMBERS = (None, "1.0", NAN, INF, -INF, HUGE, True, [1.0], 1j, torch.tensor([1.0, 2.0]))
NOT_ABOVE_ZERO = (*NOT_NUMBERS, 0, -1.5)
NOT_FLAGS = (None, "yes", 1, 0.0)
NOT_FUNCTIONS = (None, "squared", 3, torch.zeros(3, VALUES))
NOT_GENERATORS = ("0", 0, np.random.default_rng(0))
NOT_PATHS = (None, 5, 2.5, b"run", ["run"], "", "a\0b", {})
NOT_TENSORS = (None, "x", 3, [1.0, 2.0], np.zeros((2, VALUES)))
NOT_SEEDS = (None, "0", -1, 2**63, 0.5, NAN, True)
NOT_MODELS = (None, "model", {}, nn.Linear(2, 2), np.zeros(3))
LINEAR = nn.Linear(2, 2)
COUNT = "must be a whole number from 1 on"
SIZE = "must be a whole number from 1 to 1,000,000"
LATENT = r"latent must be a number of dimensions, or \(channels, height, width\)"
TOLERANCES = "tolerances must be finite numbers, one or more"
PATH = "must be the path of a file or folder, as text or a Path"


@dataclass
class Good:
    """Objects in order, shared by all calls."""

    folder: Path
    """A folder with a run, a model file, and files of other kinds."""

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.x = torch.rand(60, VALUES)
        self.generator = torch.Generator().manual_seed(0)
        self.encoder, self.decoder = nn.Linear(VALUES, 2 * N), nn.Linear(N, VALUES)
        self.model = GatedVAE(self.encoder, self.decoder, N)
        self.network = NetworkConfig("mlp", (VALUES,), N, width=1, output="linear")
        self.vae = gated_vae(self.network).narrow()
        self.gates = L0Gates(N)
        self.pair = self.gates.pair(draw_uniform(5, N, self.generator))
        self.geco = Geco(1.0)
        self.narrowing = Narrowing(self.model, self.geco)
        self.fast = Fast(self.model, 1.0, self.draw, (30, 30))
        self.gated = nn.Sequential(gate(nn.Linear(VALUES, 5)), nn.ReLU(), nn.Linear(5, 2))
        self.hidden = HiddenNarrowing(self.gated, Geco(1.0), self.network_error)
        self.run, self.file = self.folder / "run", self.folder / "model.safetensors"
        self.text, self.missing = self.folder / "text.txt", self.folder / "missing"
        self.text.write_text("not a model\n")
        (self.folder / "empty").mkdir()
        narrows.save_model(self.vae, self.file)
        config = TrainConfig(tau=1.0, n=N, steps=4, recipe="paper", width=1, values="any", batch=8, log_every=2)
        narrows.train(config, self.run, self.x.numpy())
        self.sampler = Sampler("prior", torch.ones(1), torch.zeros(1, N), torch.eye(N)[None])

    @functools.cached_property
    def fitted(self) -> NarrowVAE:
        """An estimator that was fitted to `x`, with all of its dimensions."""
        with warnings.catch_warnings(action="ignore"):
            return NarrowVAE(N, max_steps=2, width=1, device="cpu", random_state=0).fit(self.x.numpy())

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        return self.x[torch.randint(len(self.x), (count,), generator=generator)]

    @staticmethod
    def network_error(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return network(x).square().sum(1)


class Case(NamedTuple):
    """One bad call."""

    what: str
    """The object and the argument, for the name of the test."""
    says: str
    """A regular expression that the error begins with."""
    call: Callable[[Good], object]
    names: str = ""
    """What the error must also contain: the value as it is shown."""
    raises: tuple[type[Exception], ...] = (NarrowsError,)
    lines: int = 1
    """Lines of the error; scikit-learn's own have several."""


def each(
    what: str, says: str, call: Callable[[Good, Any], object], values: Iterable[Any], named: bool = True
) -> list[Case]:
    """Return one case per value; the line must name the value as `brief` shows it, unless it describes it otherwise."""
    return [Case(what, says, lambda good, v=value: call(good, v), brief(value) if named else "") for value in values]


def one(what: str, says: str, call: Callable[[Good], object]) -> list[Case]:
    """Return one case."""
    return [Case(what, says, call)]


def sklearn(what: str, says: str, call: Callable[[Good], object], *raises: type[Exception]) -> list[Case]:
    """Return one case of the estimator, whose errors follow scikit-learn's conventions."""
    return [Case(what, says, call, raises=raises or (ValueError,), lines=20)]
