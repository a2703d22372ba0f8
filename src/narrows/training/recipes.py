"""How a run is driven: what happens after a batch, which model is looked at and when, and when it has ended."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows.algorithm import Narrowing, Noise, draw_noise
from narrows.closing import Closing, ClosingConfig, Decision
from narrows.constraint import Geco, SteeredBound
from narrows.data import Data, Splits
from narrows.fast import Fast
from narrows.model import GatedVAE
from narrows.monitor import Share
from narrows.objective import ERRORS
from narrows.runs import DecisionRow
from narrows.training.config import TrainConfig
from narrows.training.setup import make_geco

Act = Callable[[], None]
"""Something the trainer does when it is asked to."""
LOOK = 16
"""So many validation examples are worth a batch: looks at them all must not come oftener than can be paid for."""


class Recipe(ABC):
    """One way to drive a run; the trainer knows no other difference."""

    narrowing: Narrowing[GatedVAE] | Fast[GatedVAE]
    constraint: Geco | SteeredBound

    @abstractmethod
    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Draw one batch's noise."""

    @abstractmethod
    def after_step(self, step: int, optimiser: torch.optim.Optimizer, look: Act, settled: Act) -> DecisionRow | None:
        """Do whatever follows an optimiser step, and say what was decided, if anything.

        `look` looks at the validation split; `settled` is to be called once the size is found.
        """

    @property
    def done(self) -> bool:
        """Whether the run has ended by itself."""
        return False

    @property
    def looks_at_end(self) -> bool:
        """Whether the model of the run's end is the one meant to be kept."""
        return False

    @property
    @abstractmethod
    def model(self) -> GatedVAE:
        """The model as it would be kept now."""

    def costs(self) -> list[float] | None:
        """Return the cost of removal of each gate, nan where it is closed or unknown; None if they are not measured."""
        return None

    def watched(self) -> float:
        """Return the held-out error as measured on the way, nan if it is not."""
        return float("nan")

    def restart(self) -> None:
        """Take note that the model has been given other weights before the first batch."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what is not in the narrowing's state_dict."""
        return {}

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Undo `state_dict`."""


class PaperRecipe(Recipe):
    """Algorithm 1."""

    def __init__(self, config: TrainConfig, model: GatedVAE) -> None:
        self.config, self.trained = config, model
        self.constraint = make_geco(config)
        self.narrowing: Narrowing[GatedVAE] = Narrowing(model, self.constraint, config.estimator, ERRORS[config.error])

    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Noise for z and the gates."""
        return draw_noise(count, self.trained.n, generator, self.config.gate_noise)

    def after_step(self, step: int, optimiser: torch.optim.Optimizer, look: Act, settled: Act) -> DecisionRow | None:
        """Bring lambda back into its interval; look now and then."""
        geco = self.constraint
        assert isinstance(geco, Geco)
        geco.project()
        if step % self.config.eval_every == 0:
            look()
        return None

    @property
    def model(self) -> GatedVAE:
        """The model that is trained."""
        return self.trained

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to undo."""


class FastRecipe(Recipe):
    """Gates close by their cost of removal (docs/recipe.md), or none do: a plain VAE."""

    def __init__(self, config: TrainConfig, model: GatedVAE, data: Data, splits: Splits, share: Share) -> None:
        self.config, self.examples, self.validation, self.share = config, data.examples, splits.validation, share
        self.device = next(model.parameters()).device
        steps = None if config.steps == "auto" else config.steps
        tries = 0 if config.recipe == "plain" else ClosingConfig.tries
        closing = Closing(ClosingConfig(patience=config.patience, tries=tries), steps, config.tau is not None)
        self.fast: Fast[GatedVAE] = Fast(
            model,
            config.tau,
            self._held_out,
            (len(splits.validation), len(splits.test)),
            ERRORS[config.error],
            closing,
            config.aim,
            config.seed,
            share,
        )
        self.narrowing = self.fast
        self.constraint = self.fast.constraint
        self.looked = 0
        """Batch of the last look."""

    def _held_out(self, count: int, generator: torch.Generator) -> Tensor:
        drawn = torch.randint(len(self.validation), (count,), generator=generator, device=generator.device)
        index: np.ndarray = self.validation[self.share(drawn.cpu().numpy())]
        return self.examples.batch(index).to(self.device)

    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Noise for z."""
        return self.fast.noise(count, generator)

    def after_step(self, step: int, optimiser: torch.optim.Optimizer, look: Act, settled: Act) -> DecisionRow | None:
        """Measure, decide and act; look at sizes that hold, before they are left."""

        row: DecisionRow | None = None

        def before(decision: Decision) -> None:
            nonlocal row
            gates = " ".join(map(str, decision.gates))
            row = DecisionRow(step, decision.action, len(self.model.gates.kept()), self.fast.closing.last_error, gates)
            pause = min(self.config.eval_every, len(self.validation) // LOOK)
            due = decision.action == "close" and step - self.looked >= pause
            if due or decision.action == "release":
                self.looked = step
                look()
            if decision.action == "release":
                settled()

        self.fast.after_step(optimiser, before)
        return row

    @property
    def done(self) -> bool:
        """The last phase is over."""
        return self.fast.done

    @property
    def looks_at_end(self) -> bool:
        """The last phase makes the model that is meant."""
        return True

    @property
    def model(self) -> GatedVAE:
        """The averaged weights."""
        return self.fast.monitor.averaged

    def costs(self) -> list[float]:
        """Of the open gates, in the unit of the error."""
        costs = self.fast.monitor.costs()[:, 0]
        known = torch.isfinite(costs) & (self.model.gates.hard() > 0)
        return torch.where(known, costs, torch.nan).tolist()

    def watched(self) -> float:
        """The moving average of the measurements."""
        return self.fast.watched[0].item()

    def state_dict(self) -> dict[str, Any]:
        """The decisions, the average, the last look."""
        return {**self.fast.state(), "looked": self.looked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Undo `state_dict`."""
        self.fast.load_state(state)
        self.looked = state["looked"]

    def restart(self) -> None:
        """Begin the average with the weights as they are."""
        with torch.no_grad():
            self.fast.monitor.restart()

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Take over the average and the costs; decide anew."""
        self.fast.monitor.load_state_dict(state["monitor"])


def make_recipe(config: TrainConfig, model: GatedVAE, data: Data, splits: Splits, share: Share) -> Recipe:
    """Return the recipe that the settings ask for, around an untrained model."""
    if config.recipe == "paper":
        return PaperRecipe(config, model)
    return FastRecipe(config, model, data, splits, share)
