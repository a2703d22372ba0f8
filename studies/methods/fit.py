"""Training without a bound until the error settles, for the rivals that have a loss of their own.

Everything but the loss is what `narrows train --recipe plain` does for the widest model, so that a rival is not beaten
by its training: the same networks, batches and learning rate, Muon for the hidden layers of convolutional networks and
Adam for all else, averaged weights, an end when half as many batches again would gain less than 3%, and a learning rate
that then falls to a hundredth along a cosine.
"""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from methods.problem import Problem
from narrows.data import Batches
from narrows.model.vae import GatedVAE
from narrows.recipes.controller import Controller, ControllerConfig
from narrows.recipes.fast import DECIDE_EVERY, LAST_WINDOW, MEASURE_EVERY, WINDOW
from narrows.recipes.last_phase import lower_rate
from narrows.recipes.monitor import PANEL
from narrows.recipes.optimiser import make_optimiser


class Rival(nn.Module):
    """A model with a loss of its own.

    Arguments:
        model: The encoder and the decoder.
    """

    def __init__(self, model: GatedVAE) -> None:
        super().__init__()
        self.model = model

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the loss of a batch, a number to differentiate."""
        raise NotImplementedError

    def errors(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return what training is meant to make small, for each example, (batch,)."""
        raise NotImplementedError

    def others(self) -> Iterable[nn.Parameter]:
        """Return parameters beside those of encoder and decoder; Adam trains them."""
        return []

    def before(self, step: int) -> None:
        """Do what is due before a batch."""


class Objective(nn.Module):
    """What `make_optimiser` takes: a model whose gates are open and stay so, trained as narrows trains it."""

    orthogonal_updates = True

    def __init__(self, model: GatedVAE) -> None:
        super().__init__()
        self.model, self.constraint = model, nn.Module()
        model.gates.logits.requires_grad_(False)
        model.gates.open(list(range(model.n)))


def fit(rival: Rival, problem: Problem, limit: int) -> int:
    """Train a rival until its error settles, leave it with its averaged weights, and return the number of batches."""
    controller = Controller(ControllerConfig(closes=False, least_last=problem.least_last), limit, bounded=False)
    optimiser = make_optimiser(Objective(rival.model), problem.learning_rate)
    if others := list(rival.others()):
        optimiser.add_param_group({"params": others})
    averaged = copy.deepcopy(rival).requires_grad_(False).eval()
    pairs = [(a, t) for a, t in zip(_floats(averaged), _floats(rival), strict=True)]
    batches = Batches(problem.plan.splits.training, problem.config.batch, problem.seed)
    noise, held_out = torch.Generator().manual_seed(problem.seed), problem.draw("validation")
    rival.train()
    while controller.phase != "ended":
        rival.before(controller.step)
        loss = rival.loss(problem.examples.batch(batches.next()), noise)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        controller.advance()
        window = LAST_WINDOW if controller.phase == "release" else WINDOW
        with torch.no_grad():
            for mean, tensor in pairs:
                mean.lerp_(tensor, max(1 / (1 + controller.since / 4), 1 / window))
            if controller.step % MEASURE_EVERY == 0:
                again = torch.Generator().manual_seed(problem.seed)
                controller.observe(averaged.errors(held_out(PANEL, again), again).mean().item())
        if controller.step % DECIDE_EVERY == 0 or controller.step == limit:
            decision = controller.decide(lambda: None)
            if decision is not None:
                rival.load_state_dict(averaged.state_dict())
        lower_rate(optimiser, controller.fallen())
    rival.eval()
    return controller.step


def _floats(rival: Rival) -> list[Tensor]:
    return [t.detach() for t in rival.state_dict(keep_vars=True).values() if t.is_floating_point()]
