"""The fast recipe: L0 first and KL second, under GECO's bound.

One step trains with hard gates, so no effort goes into the gates' noise and no second pass is needed:

    loss = sum of lambda (E / tau - 1) + mean over open gates of the KL          (line 22 of Algorithm 1, C / tau)

After each step `update` lets the averaged weights follow and measures them, every few batches, on held-out examples
(monitor.py); `decide` asks the controller what to do (controller.py), and `act` does it. Before gates close, the latent
space takes the coordinates in which removing a dimension costs least (rotation.py), so what closes are its cheapest
directions. Where the error does not recover, the model from before the closing comes back. In the last phase
(last_phase.py) lambda is steered so that the error rises to its target, and the learning rate falls.

In a loop of your own:

    fast = Fast(model, tolerance=10.0, held_out=draw, split_sizes=(len(validation), len(test)))
    optimiser = make_optimiser(fast, 2e-3)
    while not fast.done:
        loss, record = fast(next(batches), fast.noise(64, generator))
        loss.backward(); optimiser.step(); optimiser.zero_grad()
        fast.after_step(optimiser)
    smaller = fast.candidate.narrow()
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from narrows._util.checks import COUNT, FLAG, FUNCTION, SEED, SHARE, WHOLE, argument, instance_of, several
from narrows._util.devices import to_device
from narrows._util.errors import NarrowsError
from narrows._util.memory import within_memory
from narrows._util.schema import Either, Schema
from narrows._util.tensors import like, like_all
from narrows._util.text import brief
from narrows.constraint import SteeredBound
from narrows.gates.l0 import check_draw
from narrows.model.vae import GatedVAE
from narrows.networks.joined_batch import joined_batch
from narrows.objective import Error, gated_kl, kl_elements, per_example, squared_error
from narrows.recipes.base import (
    DRAW,
    ERROR,
    MODEL,
    Draw,
    Noise,
    Recipe,
    RecipeInputs,
    Share,
    StepRecord,
    all_rows,
    check_step,
    hits,
    weighted,
)
from narrows.recipes.controller import EFFORTS, Controller, ControllerConfig, Decision
from narrows.recipes.last_phase import TURNED_AT_LAST, LastPhase, lower_rate
from narrows.recipes.monitor import MANY, MOST, Monitor
from narrows.recipes.turning import Turning
from narrows.runs.certificate import Terms

MEASURE_EVERY = 16
"""Batches between measurements."""
DECIDE_EVERY = 10
"""Batches between decisions."""
CALIBRATE_AFTER = 1.25
"""An error within its target is confirmed on many examples once the run is this much longer than at the last time."""
CALIBRATIONS = 6
"""How often it is compared with many examples in a last phase of full length."""
WINDOW, LAST_WINDOW = 500, 100
"""Window of the averaged weights, in batches, at most; shorter in the last phase, where lambda must see its effect."""
ALLOWANCE, LAST_ALLOWANCE = 1.0, 2.0
"""How much harder than the validation split the test split may be, in standard errors; the second holds in the last
phase, which leaves nothing below its target and no longer decides about the size."""
FEW_LAST = 600
"""Batches of the last phase, at least, for sets of few rows, whose errors settle within a hundred or two."""
MOST_MARGIN, MOST_LAST_MARGIN = 0.2, 0.5
"""Largest distance of the target from tau, as a share of tau, beyond what an exact certificate needs in any case."""

CONTROLLER = instance_of(Controller, "a Controller, such as Controller(steps=400)")
TERMS = instance_of(Terms, "the Terms of a certificate, such as Terms(0.99)")
OPTIMISER = instance_of(torch.optim.Optimizer, "a torch optimiser, such as make_optimiser returns")


class Fast(nn.Module, Recipe):
    """The fast recipe: call it once per batch, step the optimiser, then call `after_step`.

    Arguments:
        model: The gated model to train.
        tolerance: tau, or one tau for each error that `error` returns; None for no bound, so that the error becomes as
            small as it gets.
        held_out: Draws that many validation examples at random with the given generator.
        split_sizes: Number of examples in the validation and in the test split; they set how far below tau to aim.
        error: The promised error, `(batch, *shape)` twice -> (batch,), or (batch, m) for m bounds.
        controller: When gates close and training ends.
        aim: Share of tau to aim at, instead of measuring it.
        seed: Seed of the held-out measurements.
        share: With several processes, returns this one's rows of what was drawn for all.
        training_examples: Draws training examples in the same way, for the coordinates of the last phase; by default
            they come from `held_out`.
        terms: The terms of the certificate; with the sizes of the splits, they set how far below tau to aim.

    Raises:
        NarrowsError: A tolerance is not a number above 0, `split_sizes` are not two counts, `aim` is not a share, or
            another argument is of another type.
    """

    orthogonal_updates = True
    """Whether `make_optimiser` trains the hidden layers with Muon."""
    closes = True
    """Whether gates close, in a run built from settings."""

    def __init__(
        self,
        model: GatedVAE,
        tolerance: float | Sequence[float] | None,
        held_out: Draw,
        split_sizes: tuple[int, int],
        error: Error = squared_error,
        controller: Controller | None = None,
        aim: float | None = None,
        seed: int = 0,
        share: Share = all_rows,
        training_examples: Draw | None = None,
        terms: Terms | None = None,
    ) -> None:
        super().__init__()
        self.model: GatedVAE = argument("model", model, MODEL)
        self.constraint = SteeredBound(tolerance)
        self.held_out: Draw = argument("held_out", held_out, DRAW)
        words = "two counts, (validation, test) examples"
        validation, test = several("split_sizes", split_sizes, COUNT, words, lengths=(2,))
        self.split_sizes = (validation, test)
        self.error: Error = argument("error", error, ERROR)
        self.controller: Controller = argument("controller", controller, CONTROLLER, or_none=True) or Controller()
        self.aim: float | None = argument("aim", aim, SHARE, or_none=True)
        seed = argument("seed", seed, SEED)
        self.share: Share = argument("share", share, FUNCTION)
        training_examples = argument("training_examples", training_examples, DRAW, or_none=True)
        self.terms: Terms = argument("terms", terms, TERMS, or_none=True) or Terms()
        model.gates.logits.requires_grad_(False)
        model.gates.open(model.gates.kept())
        self.controller.bounded = self.constraint.bounded
        self.monitor = Monitor(model, error, len(self.constraint.tolerance), held_out, seed, share)
        self.turning = Turning(self.monitor)
        self.last_phase = LastPhase(self.turning, self.constraint, self.target, training_examples or held_out)
        self.good: dict[str, Tensor] = {}
        """State of the averaged model before gates closed last, within its target."""
        self.calibrated = 0
        """The batch after which the panel was last compared with many examples."""
        self.watched = torch.full_like(self.constraint.tolerance, math.inf, dtype=torch.float64)
        """Moving average of the held-out error since the last change, (m,)."""
        self.fresh = True
        """Whether the next measurement is the first since a change."""

    @classmethod
    def build(cls, inputs: RecipeInputs) -> "Fast":
        """Return the recipe around an untrained model."""
        least_last = FEW_LAST if inputs.few_rows else ControllerConfig.least_last
        config = ControllerConfig(patience=EFFORTS[inputs.effort], closes=cls.closes, least_last=least_last)
        return cls(
            inputs.model,
            inputs.tau,
            inputs.held_out,
            inputs.split_sizes,
            inputs.error,
            Controller(config, inputs.steps, inputs.tau is not None),
            inputs.aim,
            inputs.seed,
            inputs.share,
            inputs.training_examples,
            inputs.terms,
        )

    @property
    def objective(self) -> nn.Module:
        """The recipe itself."""
        return self

    @property
    def candidate(self) -> GatedVAE:
        """The model with averaged weights."""
        return self.monitor.averaged

    @property
    def done(self) -> bool:
        """Whether training has ended by itself."""
        return self.controller.phase == "ended"

    def forward(self, x: Tensor, noise: Noise, weight: Tensor | None = None) -> tuple[Tensor, StepRecord]:
        """Return the loss to differentiate, and the record.

        Arguments:
            x: Examples, `(batch, *shape)`.
            noise: The randomness of the step.
            weight: How much each example counts, (batch,), with mean 1 over the set; by default all count the same.
        """
        gates = self.model.gates.hard()
        with joined_batch(self.model):
            posterior = self.model.encode(x)
            try:
                z = posterior.draw(noise.eps)
            except Exception:
                check_step(self.model, x, noise)
                raise
            decoded = self.model.decode(z, gates)
        error = weighted(per_example(self.error(x, decoded), len(x)), self.constraint.tolerance, weight)
        term = self.constraint(error)
        kl = gated_kl(kl_elements(*posterior), gates.expand(len(z), -1))
        kl = (kl if weight is None else weight * kl).mean()
        loss = term.loss + kl
        meets = hits(term.violation, weight)
        return loss, StepRecord(error.detach()[:, 0].mean(), meets, kl.detach(), loss.detach())

    def target(self, spread: Tensor | None = None) -> Tensor:
        """Return the target of the held-out error, (m,): tau less the margin that the certificate needs.

        `spread` is the standard deviation of one example's error, (m,), by default as measured.
        """
        if not self.constraint.bounded:
            return torch.ones_like(self.constraint.tolerance, dtype=torch.float64)
        if self.aim is not None:
            return self.aim * self.constraint.tolerance.double()
        tau = self.constraint.tolerance.double()
        last = self.controller.phase in ("release", "ended")
        allowance, most = (LAST_ALLOWANCE, MOST_LAST_MARGIN) if last else (ALLOWANCE, MOST_MARGIN)
        spreads = (self.monitor.spread if spread is None else spread).tolist()
        shapes = zip(spreads, self.monitor.skewness.tolist(), strict=True)
        margins = [self.terms.margin(one, *self.split_sizes, allowance, skew) for one, skew in shapes]
        margin = to_device(torch.tensor(margins, dtype=tau.dtype), tau.device)
        least = self.terms.room(0.0, self.split_sizes[1])  # what an exact certificate needs whatever the spread
        return tau - torch.minimum(margin, least + most * (tau - least).clamp(min=0))

    def after_step(self, optimiser: torch.optim.Optimizer) -> Decision | None:
        """Update, decide and act: everything that follows an optimiser step. Return the decision, or None."""
        if self.controller.step == 0:
            argument("optimiser", optimiser, OPTIMISER)
        self.update(optimiser)
        decision = self.decide()
        if decision is not None:
            self.act(decision, optimiser)
        return decision

    def update(self, optimiser: torch.optim.Optimizer) -> None:
        """Let the averaged weights follow and measure them; in the last phase, steer lambda and the learning rate."""
        controller, releasing = self.controller, self.controller.phase == "release"
        controller.advance()
        self.monitor.follow(controller.since, LAST_WINDOW if releasing else WINDOW)
        if controller.step % MEASURE_EVERY == 0:
            error = self.monitor.measure()
            controller.observe((error / self.target()).max().item())
            self.watched = error if self.fresh else torch.lerp(self.watched, error, 0.3)
            self.fresh = False
        if releasing:
            if not self.fresh:
                self.last_phase.steer(self.watched)
            lower_rate(optimiser, controller.fallen())

    def decide(self) -> Decision | None:
        """Ask the controller what to do, every few batches, and after the last of a given number."""
        controller = self.controller
        if controller.step % DECIDE_EVERY and controller.step != controller.steps:
            return None
        if self._calibration_due():
            self._calibrate()
        return controller.decide(self._removal)

    def _calibration_due(self) -> bool:
        """Return whether the panel must be compared again: before a size is left, and in the last phase."""
        controller = self.controller
        if controller.phase == "release":
            return self.constraint.bounded and controller.step - self.calibrated >= controller.limit / CALIBRATIONS
        return controller.is_within() and controller.step >= CALIBRATE_AFTER * self.calibrated

    @torch.no_grad()
    def act(self, decision: Decision, optimiser: torch.optim.Optimizer) -> None:
        """Close gates, bring the model from before a closing back, begin the last phase, or end it."""
        if decision.action == "close":
            self.turning.apply(self.turning.found, optimiser)
            self.monitor.forget_costs()
            self.good = {name: tensor.clone() for name, tensor in self.monitor.averaged.state_dict().items()}
            self.model.gates.close(decision.gates)
        elif decision.action == "restore":
            self.model.load_state_dict(self.good)
        elif decision.action == "release":
            self.last_phase.take_better()
            if self.turning.possible:
                self.turning.apply(self.turning.find(TURNED_AT_LAST)[0], optimiser)
                self.monitor.forget_costs()
                self._settle(optimiser)
        else:
            if self.turning.possible:
                self._settle(optimiser)
            return
        self.monitor.restart()
        self.fresh = True

    def _calibrate(self, count: int = MANY) -> None:
        self.calibrated = self.controller.step
        before, factor = self.target(), self.monitor.calibrate(count)
        self.watched *= factor
        self.controller.correct((factor * before / self.target()).max().item())  # the spread, and so the target, is new

    def _settle(self, optimiser: torch.optim.Optimizer) -> None:
        if self.constraint.bounded:
            self._calibrate(MOST if self.done else MANY)
        self.last_phase.settle(optimiser, final=self.done)

    def _removal(self) -> Iterator[tuple[int, float]] | None:
        """Return what closing costs: by directions, or by single dimensions where the networks cannot be turned."""
        self.turning.found = None
        if self.turning.possible:
            return ((gate, (cost / self.target()).max().item()) for gate, cost in self.turning.costs())
        costs = (self.monitor.costs() / self.target()).amax(1)[self.model.gates.kept()]
        return self._dimensions(costs) if torch.isfinite(costs).all() else None

    def _dimensions(self, costs: Tensor) -> Iterator[tuple[int, float]]:
        order = costs.argsort()
        total = costs.clamp(min=0)[order].cumsum(0)
        kept = self.model.gates.kept()
        return ((kept[place], cost) for place, cost in zip(order.tolist(), total.tolist(), strict=True))

    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Draw one step's noise for z, this process's rows of `count`; hard gates need none."""
        kind = next(self.model.parameters()).dtype
        shape = self.model.latent_shape
        try:
            eps = torch.randn(count, *shape, generator=generator, device=generator.device, dtype=kind)
        except Exception:
            check_draw(count, generator)
            with within_memory(f"the noise of {count} examples", "use smaller batches"):
                raise
        eps = self.share(eps)
        return Noise(eps, eps.flatten(1)[:, :0])

    def decided_at(self) -> float:
        """Return the error at the last decision, as a share of its target."""
        return self.controller.last_error

    def heldout_error(self) -> float:
        """Return the moving average of the held-out error; of the first, with several bounds."""
        return self.watched[0].item()

    def costs(self) -> list[float]:
        """Return each gate's cost of removal in the unit of the error, nan where it is closed or unknown."""
        costs = self.monitor.costs()[:, 0]
        known = torch.isfinite(costs) & (self.candidate.gates.hard() > 0)
        return torch.where(known, costs, torch.nan).tolist()

    @torch.no_grad()
    def restart(self) -> None:
        """Begin the average with the weights as they are."""
        self.monitor.restart()

    def continue_from(self, state: dict[str, Any]) -> None:
        """Take over another run's average; where it had given up a closing, wait on for that under the present tau."""
        self.monitor.load_state_dict(state["monitor"])
        before = state["controller"]
        if before["phase"] == "restored":
            self.good = state["good"]
            share = (state["target"] / self.target().cpu()).max().item()
            self.controller.go_on(before["pending"], share * before["good_error"])

    def recipe_state(self) -> dict[str, Any]:
        """Return what is not in `state_dict`: the average, the controller, the model from before the last closing."""
        return {
            "monitor": self.monitor.state_dict(),
            "controller": self.controller.state_dict(),
            "good": self.good,
            "target": self.target().cpu(),
            "calibrated": self.calibrated,
            "watched": self.watched,
            "fresh": self.fresh,
        }

    def describe_state(self) -> Schema:
        """Return what `recipe_state` must look like."""
        return {
            "monitor": self.monitor.describe_state(),
            "controller": self.controller.describe_state(self.model.n),
            "good": Either({}, like_all(self.model.state_dict())),
            "target": like(self.target()),
            "calibrated": WHOLE,
            "watched": like(self.watched),
            "fresh": FLAG,
        }

    def load_recipe_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `recipe_state` returned."""
        if not isinstance(state, dict) or not set(self.recipe_state()) <= set(state):
            raise NarrowsError(f"state must be what recipe_state() returned; it is {brief(state)}")
        device = self.constraint.inverse.device
        self.monitor.load_state_dict(state["monitor"])
        self.controller.load_state_dict(state["controller"])
        self.good = {name: tensor.to(device) for name, tensor in state["good"].items()}
        self.watched = state["watched"].to(device)
        self.calibrated, self.fresh = state["calibrated"], state["fresh"]


class Plain(Fast):
    """A plain VAE: the same training without closing a dimension."""

    closes = False
