"""7c. The fast recipe: L0 first and KL second, under GECO's bound.

One step trains with hard gates, so nothing is spent on the gates' noise and no second pass is needed:

    loss = sum of lambda (E / tau - 1) + mean over open gates of the KL          (line 22 of Algorithm 1, C / tau)

After each step `after_step` lets the averaged weights follow, measures them every few batches on held-out examples
(monitor.py), asks what is to be done (closing.py) and does it: gates are closed by their logits and opened again with
the weights they had; where that does not bring the error back (small data, learned by heart), all weights return to the
average that was good. In the last phase lambda is steered so that the error rises to its target, and the learning rate
runs out.

At the start of the last phase each latent dimension is standardised: z -> (z - mean) / std over the data, undone in
the decoder's first layer. While lambda is held the KL term is too weak to settle the latent space's scale; since the
layer is linear on both sides the decoded means do not change, and the KL term's minimum over all scales is reached in
one move.

For a loop of one's own:

    fast = Fast(model, tolerance=10.0, held_out=draw, split_sizes=(len(validation), len(test)))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    while not fast.done:
        loss, record = fast(next(batches), fast.noise(64, generator))
        loss.backward(); optimiser.step(); optimiser.zero_grad()
        fast.after_step(optimiser)
    smaller = fast.monitor.averaged.narrow()
"""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Generic

import torch
from torch import Tensor, nn

from narrows.algorithm import Noise, StepRecord
from narrows.closing import Closing, ClosingConfig, Decision
from narrows.constraint import SteeredBound
from narrows.errors import NarrowsError
from narrows.model import LOG_STD_BOUND
from narrows.monitor import Monitor, Share, whole
from narrows.objective import Error, gated_kl, kl_elements, per_example, squared_error
from narrows.own import Model
from narrows.processes import mean_over_processes

HeldOutBatch = Callable[[int, torch.Generator], Tensor]
"""Draws that many examples from the validation split, at random, from this generator (of several processes, a part)."""

MEASURE_EVERY = 4
"""Batches between measurements."""
MEASURED = 64
"""Held-out examples a measurement."""
DECIDE_EVERY = 10
"""Batches between decisions."""
WINDOW, LAST_WINDOW = 500, 100
"""Batches that the averaged weights look back, at most; less in the last phase, where lambda must feel what it does."""
FALLING = 0.4
"""Share of the last phase over which the learning rate runs out."""
MOST_MARGIN, MOST_LAST_MARGIN = 0.2, 0.5
"""Of tau: the target is below tau by what the certificate needs, at most by this; the second in the last phase, which
no longer decides about the size."""
SCALE_EXAMPLES = 1_024
"""Held-out examples that say how wide each latent dimension is."""


class Fast(nn.Module, Generic[Model]):
    """The fast recipe's objective and its driver: call it once a batch, step the optimiser, then `after_step`."""

    def __init__(
        self,
        model: Model,
        tolerance: float | Sequence[float] | None,
        held_out: HeldOutBatch,
        split_sizes: tuple[int, int],
        error: Error = squared_error,
        closing: Closing | None = None,
        aim: float | None = None,
        seed: int = 0,
        share: Share = whole,
    ) -> None:
        super().__init__()
        self.model, self.error, self.held_out = model, error, held_out
        self.constraint = SteeredBound(tolerance)
        model.gates.logits.requires_grad_(False)
        model.gates.open(model.gates.kept())
        self.closing = closing or Closing(ClosingConfig())
        self.closing.bounded = self.constraint.bounded
        self.monitor = Monitor(model, error, len(self.constraint.tolerance), seed, share)
        self.split_sizes, self.aim = _check_sizes(split_sizes), aim
        self.stored: dict[int, dict[str, Tensor]] = {}
        """The weights of the gates that were last closed, as they were then."""
        self.good: dict[str, Tensor] = {}
        """The averaged model as it was then: within its target."""
        self.watched = torch.full_like(self.constraint.tolerance, math.inf, dtype=torch.float64)
        """Moving average of the held-out error since the last change."""
        self.fresh = True
        """Whether the next measurement is the first since a change."""

    @property
    def done(self) -> bool:
        """Whether training has ended by itself."""
        return self.closing.phase == "ended"

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
        """Return what the held-out error must be, (m,): tau less the margin that the certificate needs.

        The margin is two half widths of a 95% interval: one for what the validation split can tell, one for the test
        split's own interval, whose upper end must be within tau. The last phase, which leaves nothing below its target,
        takes half as much again.
        """
        if not self.constraint.bounded:
            return torch.ones_like(self.constraint.tolerance, dtype=torch.float64)
        if self.aim is not None:
            return self.aim * self.constraint.tolerance.double()
        validation, test = self.split_sizes
        margin = 1.96 * self.monitor.spread * (validation**-0.5 + test**-0.5)
        tau = self.constraint.tolerance.double()
        if self.closing.phase == "release":
            return tau - torch.minimum(1.5 * margin, MOST_LAST_MARGIN * tau)
        return tau - torch.minimum(margin, MOST_MARGIN * tau)

    def after_step(
        self, optimiser: torch.optim.Optimizer, before: Callable[[Decision], None] | None = None
    ) -> Decision | None:
        """Follow, measure, decide and act; return the decision, if any. `before` hears of it before the act."""
        closing, releasing = self.closing, self.closing.phase == "release"
        closing.advance()
        self.monitor.follow(closing.since, LAST_WINDOW if releasing else WINDOW)
        if closing.step % MEASURE_EVERY == 0:
            error = self.monitor.measure(self.held_out(MEASURED, self.monitor.generator), MEASURED)
            closing.observe((error / self.target()).max().item())
            self._watch(error)
        if releasing:
            self._let_go(optimiser)
        if closing.step % DECIDE_EVERY:
            return None
        decision = closing.decide(self._relative_costs())
        if decision is not None:
            if before is not None:
                before(decision)
            self._act(decision)
        return decision

    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Draw one step's noise; there is none for the gates."""
        kind = next(self.model.parameters()).dtype
        eps = torch.randn(count, *self.model.latent_shape, generator=generator, device=generator.device, dtype=kind)
        return Noise(eps, eps.flatten(1)[:, :0])

    def _watch(self, error: Tensor) -> None:
        self.watched = error if self.fresh else torch.lerp(self.watched, error, 0.08)
        self.fresh = False

    def _let_go(self, optimiser: torch.optim.Optimizer) -> None:
        """Steer lambda towards an error at its target; lower the learning rate over the last part of the phase."""
        if self.constraint.bounded and not self.fresh:
            self.constraint.steer((self.watched / self.target() - 1).to(self.constraint.inverse.dtype))
        falling = max(0.0, 1 - (1 - self.closing.progress()) / FALLING)
        for group in optimiser.param_groups:
            group.setdefault("initial_lr", group["lr"])
            group["lr"] = group["initial_lr"] * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * falling)))

    def _relative_costs(self) -> dict[int, float]:
        """Return each open gate's cost as a share of the target: the largest, where there are several bounds."""
        costs = (self.monitor.costs() / self.target()).amax(1).tolist()
        return {gate: costs[gate] for gate in self.model.gates.kept()}

    @torch.no_grad()
    def _act(self, decision: Decision) -> None:
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

    @torch.no_grad()
    def standardise(self) -> None:
        """Give every open dimension mean 0 and variance 1 over the data, with the same output.

        Networks of one's own that would have another output are left as they are: their codes keep their scale.
        """
        if not self.model.rescalable:
            return
        posterior = self.monitor.averaged.encode(self.held_out(SCALE_EXAMPLES, self.monitor.generator))
        hard = self.model.gates.hard() > 0
        mean = mean_over_processes(_by_dimension(posterior.mean).mean(1)) * hard
        spread = (_by_dimension(posterior.mean) - mean[:, None]).square() + (2 * _by_dimension(posterior.log_std)).exp()
        variance = mean_over_processes(spread.mean(1))
        scale = torch.where(hard, variance.sqrt(), torch.ones_like(variance)).clamp(min=1e-6)
        # log sigma bends towards its bound: what moves it by -log(scale) there is a little more at the layer.
        bend = (1 - (_by_dimension(posterior.log_std) / LOG_STD_BOUND).square()).mean(1).clamp(min=0.1)
        self.model.latent_layer.rescale(mean, scale, scale.log() / mean_over_processes(bend))

    def state(self) -> dict[str, Any]:
        """Return what is not in `state_dict`: the average, the decisions, the gates' stored weights."""
        return {
            "monitor": self.monitor.state_dict(),
            "closing": self.closing.state_dict(),
            "stored": self.stored,
            "good": self.good,
            "watched": self.watched,
            "fresh": self.fresh,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        device = self.constraint.inverse.device
        self.monitor.load_state_dict(state["monitor"])
        self.closing.load_state_dict(state["closing"])
        self.stored = {
            gate: {name: tensor.to(device) for name, tensor in tensors.items()}
            for gate, tensors in state["stored"].items()
        }
        self.good = {name: tensor.to(device) for name, tensor in state["good"].items()}
        self.watched = state["watched"].to(device)
        self.fresh = state["fresh"]


def _check_sizes(sizes: Any) -> tuple[int, int]:
    """Refuse what is no pair of counts."""
    pair = tuple(sizes) if isinstance(sizes, Sequence) else ()
    if len(pair) != 2 or any(not isinstance(size, Integral) or int(size) < 1 for size in pair):
        raise NarrowsError(f"split_sizes must be two counts, (validation, test) examples; it is {sizes!r:.100}")
    return pair


def _by_dimension(values: Tensor) -> Tensor:
    """(batch, n, ...) -> (n, everything else): of a latent map all positions count."""
    return values.transpose(0, 1).flatten(1)
