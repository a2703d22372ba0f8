"""The fast recipe: L0 first and KL second, under GECO's bound.

One step trains with hard gates, so no effort goes into the gates' noise and no second pass is needed:

    loss = sum of lambda (E / tau - 1) + mean over open gates of the KL          (line 22 of Algorithm 1, C / tau)

After each step `update` lets the averaged weights follow and measures them, every few batches, on held-out examples
(monitor.py); `decide` asks the controller what to do (controller.py), and `act` does it. Gates close by their logits
and reopen with the weights they had. Where that does not bring the error back (on small data, which the network learns
by heart), all weights return to the last average that was within its target. In the last phase lambda is steered so
that the error rises to its target, and the learning rate decays.

At the start of the last phase each latent dimension is standardised: z -> (z - mean) / std over the data, undone in
the decoder's first layer. While lambda is held, the KL term is too weak to settle the latent space's scale. The layer
is linear on both sides, so the decoded means do not change, and the KL term reaches its minimum over all scales in one
move.

In a loop of your own:

    fast = Fast(model, tolerance=10.0, held_out=draw, split_sizes=(len(validation), len(test)))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    while not fast.done:
        loss, record = fast(next(batches), fast.noise(64, generator))
        loss.backward(); optimiser.step(); optimiser.zero_grad()
        fast.after_step(optimiser)
    smaller = fast.candidate.narrow()
"""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from narrows._util.errors import NarrowsError
from narrows._util.processes import mean_over_processes
from narrows.constraint import SteeredBound
from narrows.model.vae import LOG_STD_BOUND, GatedVAE
from narrows.objective import Error, gated_kl, kl_elements, per_example, squared_error
from narrows.recipes.base import HeldOutBatch, Noise, Recipe, RecipeInputs, Share, StepRecord, all_rows
from narrows.recipes.controller import Controller, ControllerConfig, Decision
from narrows.recipes.monitor import Monitor
from narrows.runs import certificate

MEASURE_EVERY = 4
"""Batches between measurements."""
MEASURED = 64
"""Held-out examples per measurement."""
DECIDE_EVERY = 10
"""Batches between decisions."""
WINDOW, LAST_WINDOW = 500, 100
"""Window of the averaged weights, in batches, at most; shorter in the last phase, where lambda must see its effect."""
FALLING = 0.4
"""Share of the last phase over which the learning rate decays."""
MOST_MARGIN, MOST_LAST_MARGIN = 0.2, 0.5
"""Largest distance of the target from tau, as a share of tau; the second holds in the last phase, which no longer
decides about the size."""
SCALE_EXAMPLES = 1_024
"""Held-out examples from which each latent dimension's scale is measured."""


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

    Raises:
        NarrowsError: A tolerance is not a number above 0, or `split_sizes` are not two counts.
    """

    tries = ControllerConfig.tries
    """Closings that may fail in a row, in a run built from settings."""

    def __init__(
        self,
        model: GatedVAE,
        tolerance: float | Sequence[float] | None,
        held_out: HeldOutBatch,
        split_sizes: tuple[int, int],
        error: Error = squared_error,
        controller: Controller | None = None,
        aim: float | None = None,
        seed: int = 0,
        share: Share = all_rows,
    ) -> None:
        super().__init__()
        self.model, self.error, self.held_out = model, error, held_out
        self.constraint = SteeredBound(tolerance)
        model.gates.logits.requires_grad_(False)
        model.gates.open(model.gates.kept())
        self.controller = controller or Controller(ControllerConfig())
        self.controller.bounded = self.constraint.bounded
        self.monitor = Monitor(model, error, len(self.constraint.tolerance), seed, share)
        self.split_sizes, self.aim, self.share = _check_sizes(split_sizes), aim, share
        self.stored: dict[int, dict[str, Tensor]] = {}
        """Weights of the gates that closed last, from before they closed."""
        self.good: dict[str, Tensor] = {}
        """State of the averaged model at that time, within its target."""
        self.watched = torch.full_like(self.constraint.tolerance, math.inf, dtype=torch.float64)
        """Moving average of the held-out error since the last change, (m,)."""
        self.fresh = True
        """Whether the next measurement is the first since a change."""

    @classmethod
    def build(cls, inputs: RecipeInputs) -> "Fast":
        """Return the recipe around an untrained model."""
        config = ControllerConfig(patience=inputs.patience, tries=cls.tries)
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

    def forward(self, x: Tensor, noise: Noise) -> tuple[Tensor, StepRecord]:
        """Return the loss to differentiate, and the record."""
        gates = self.model.gates.hard()
        posterior = self.model.encode(x)
        z = posterior.draw(noise.eps)
        error = per_example(self.error(x, self.model.decode(z, gates)), len(x))
        term = self.constraint(error)
        kl = gated_kl(kl_elements(*posterior), gates.expand(len(z), -1)).mean()
        loss = term.loss + kl
        meets = (term.violation.detach() <= 0).all(1).to(kl.dtype).mean()
        return loss, StepRecord(error.detach()[:, 0].mean(), meets, kl.detach(), loss.detach())

    def target(self) -> Tensor:
        """Return the target of the held-out error, (m,): tau less the margin that the certificate needs.

        The last phase, which leaves nothing below its target, takes one and a half margins.
        """
        if not self.constraint.bounded:
            return torch.ones_like(self.constraint.tolerance, dtype=torch.float64)
        if self.aim is not None:
            return self.aim * self.constraint.tolerance.double()
        validation, test = self.split_sizes
        margin = certificate.margin(self.monitor.spread, validation, test)
        tau = self.constraint.tolerance.double()
        if self.controller.phase == "release":
            return tau - torch.minimum(1.5 * margin, MOST_LAST_MARGIN * tau)
        return tau - torch.minimum(margin, MOST_MARGIN * tau)

    def after_step(self, optimiser: torch.optim.Optimizer) -> Decision | None:
        """Update, decide and act: everything that follows an optimiser step. Return the decision, or None."""
        self.update(optimiser)
        decision = self.decide()
        if decision is not None:
            self.act(decision)
        return decision

    def update(self, optimiser: torch.optim.Optimizer) -> None:
        """Let the averaged weights follow and measure them; in the last phase, steer lambda and the learning rate."""
        controller, releasing = self.controller, self.controller.phase == "release"
        controller.advance()
        self.monitor.follow(controller.since, LAST_WINDOW if releasing else WINDOW)
        if controller.step % MEASURE_EVERY == 0:
            error = self.monitor.measure(self.held_out(MEASURED, self.monitor.generator), MEASURED)
            controller.observe((error / self.target()).max().item())
            self.watched = error if self.fresh else torch.lerp(self.watched, error, 0.08)
            self.fresh = False
        if releasing:
            self._steer(optimiser)

    def decide(self) -> Decision | None:
        """Ask the controller what to do, every few batches."""
        if self.controller.step % DECIDE_EVERY:
            return None
        return self.controller.decide(self._relative_costs())

    @torch.no_grad()
    def act(self, decision: Decision) -> None:
        """Close, reopen or restore gates and weights, or standardise the latent space for the last phase."""
        if decision.action == "close":
            self.stored = self.model.latent_layer.stored(decision.gates)
            self.good = {name: tensor.clone() for name, tensor in self.monitor.averaged.state_dict().items()}
            self.model.gates.close(decision.gates)
        elif decision.action == "restore":
            self.model.load_state_dict(self.good)
        elif decision.action == "reopen":
            # Adam's momentum moved their weights a little after they had closed.
            self.model.latent_layer.put_back(self.stored, decision.gates)
            self.model.gates.open(decision.gates)
        elif decision.action == "release":
            self.standardise()
        else:
            return
        self.monitor.restart()
        self.fresh = True

    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Draw one step's noise for z, this process's rows of `count`; hard gates need none."""
        kind = next(self.model.parameters()).dtype
        eps = torch.randn(count, *self.model.latent_shape, generator=generator, device=generator.device, dtype=kind)
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

    def _steer(self, optimiser: torch.optim.Optimizer) -> None:
        """Steer lambda towards an error at its target; lower the learning rate over the end of the phase."""
        if self.constraint.bounded and not self.fresh:
            self.constraint.steer((self.watched / self.target() - 1).to(self.constraint.inverse.dtype))
        falling = max(0.0, 1 - (1 - self.controller.progress()) / FALLING)
        for group in optimiser.param_groups:
            group.setdefault("initial_lr", group["lr"])
            group["lr"] = group["initial_lr"] * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * falling)))

    def _relative_costs(self) -> dict[int, float]:
        """Return each open gate's cost as a share of the target: the largest share, with several bounds."""
        costs = (self.monitor.costs() / self.target()).amax(1).tolist()
        return {gate: costs[gate] for gate in self.model.gates.kept()}

    @torch.no_grad()
    def standardise(self) -> None:
        """Give every open dimension mean 0 and variance 1 over the data, without changing the output.

        Networks whose output would change are left as they are, and their codes keep their scale.
        """
        if not self.model.rescalable:
            return
        posterior = self.monitor.averaged.encode(self.held_out(SCALE_EXAMPLES, self.monitor.generator))
        hard = self.model.gates.hard() > 0
        mean = mean_over_processes(_by_dimension(posterior.mean).mean(1)) * hard
        spread = (_by_dimension(posterior.mean) - mean[:, None]).square() + (2 * _by_dimension(posterior.log_std)).exp()
        variance = mean_over_processes(spread.mean(1))
        scale = torch.where(hard, variance.sqrt(), torch.ones_like(variance)).clamp(min=1e-6)
        # log sigma saturates towards its bound, so moving it by -log(scale) takes a little more at the layer.
        bend = (1 - (_by_dimension(posterior.log_std) / LOG_STD_BOUND).square()).mean(1).clamp(min=0.1)
        self.model.latent_layer.rescale(mean, scale, scale.log() / mean_over_processes(bend))

    @torch.no_grad()
    def restart(self) -> None:
        """Begin the average with the weights as they are."""
        self.monitor.restart()

    def continue_from(self, state: dict[str, Any]) -> None:
        """Take over another run's average and costs, and decide anew."""
        self.monitor.load_state_dict(state["monitor"])

    def recipe_state(self) -> dict[str, Any]:
        """Return what is not in `state_dict`: the average, the controller, the closed gates' weights."""
        return {
            "monitor": self.monitor.state_dict(),
            "controller": self.controller.state_dict(),
            "stored": self.stored,
            "good": self.good,
            "watched": self.watched,
            "fresh": self.fresh,
        }

    def load_recipe_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `recipe_state` returned."""
        device = self.constraint.inverse.device
        self.monitor.load_state_dict(state["monitor"])
        self.controller.load_state_dict(state["controller"])
        self.stored = {
            gate: {name: tensor.to(device) for name, tensor in tensors.items()}
            for gate, tensors in state["stored"].items()
        }
        self.good = {name: tensor.to(device) for name, tensor in state["good"].items()}
        self.watched = state["watched"].to(device)
        self.fresh = state["fresh"]


class Plain(Fast):
    """A plain VAE: the same training without closing a dimension."""

    tries = 0


def _check_sizes(sizes: Any) -> tuple[int, int]:
    """Raise if the sizes are not a pair of counts."""
    pair = tuple(sizes) if isinstance(sizes, Sequence) else ()
    if len(pair) != 2 or any(not isinstance(size, Integral) or int(size) < 1 for size in pair):
        raise NarrowsError(f"split_sizes must be two counts, (validation, test) examples; it is {sizes!r:.100}")
    return pair


def _by_dimension(values: Tensor) -> Tensor:
    """(batch, n, ...) -> (n, everything else); all positions of a latent map count."""
    return values.transpose(0, 1).flatten(1)
