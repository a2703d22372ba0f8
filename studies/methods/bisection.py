"""Bisection over the size with plain VAEs: the sweep that narrows replaces, as strong as we can make it.

Choices of ours
1. Every VAE is trained as narrows trains: its networks, its optimiser and rate, its loss while lambda is held, averaged
   weights, and a held-out error that is measured every 16 batches on one panel and calibrated on 2,048 examples.
2. A size is enough as soon as that error is within its target, and is given up when narrows' own forecast, a line in
   log(batches), misses the target by two standard errors at the end of the horizon: 20,000 batches, or four times those
   so far, and never before batch 2,000. These are the rules by which narrows judges a whole run, and far more patient
   than those by which it judges a closing. The knob is the horizon.
3. The widest size counts as enough without a try, because tau is 1.1 times its error.
4. The smallest size that is enough, and only that, also has a last phase, in which the rate falls; it goes on from
   where its search stopped, so no batch is counted twice. The model from before is taken if the last phase spoils it.
5. When the limit is reached, the smallest size known to be enough is the answer.
"""

import copy
from dataclasses import dataclass

import torch

from methods.problem import Answer, Method, Problem, smallest
from narrows.data import Batches
from narrows.model.vae import VAE
from narrows.recipes.controller import Controller, ControllerConfig, Decision
from narrows.recipes.fast import Plain
from narrows.recipes.optimiser import make_optimiser


class Attempt:
    """A plain VAE of one size in training.

    Arguments:
        problem: What is trained on.
        n: The size.
        horizon: How far ahead the forecast looks, in batches, at least.
    """

    def __init__(self, problem: Problem, n: int, horizon: int) -> None:
        self.problem, plan = problem, problem.plan
        config = ControllerConfig(closes=False, fit_patience=horizon, least_last=problem.least_last)
        self.recipe = Plain(
            problem.model(n),
            problem.tau,
            problem.draw("validation"),
            plan.split_sizes,
            problem.error,
            Controller(config),
            seed=problem.seed,
            training_examples=problem.draw("train"),
            terms=plan.terms,
        )
        self.optimiser = make_optimiser(self.recipe, problem.learning_rate)
        self.batches = Batches(plan.splits.training, problem.config.batch, problem.seed)
        self.noise = torch.Generator().manual_seed(problem.seed)
        self.is_enough = False

    @property
    def spent(self) -> int:
        """Batches so far."""
        return self.recipe.controller.step

    def search(self, limit: int) -> bool:
        """Train until the size is known to be enough, or is given up, or `limit` batches are spent."""
        decision = None
        while decision is None and self.spent < limit:
            decision = self._step()
        self.is_enough = decision is not None and self.recipe.controller.last_error <= 1
        return self.is_enough

    def finish(self) -> VAE:
        """Return the model after its last phase, or from before it where that is expected to have a lower upper end.

        A model that meets tau after the last phase is preferred, because only that one has settled.
        """
        before = copy.deepcopy(self.recipe.candidate).narrow()
        if self.recipe.controller.phase != "release":  # the limit came before a decision
            return before
        self.recipe.act(Decision("release", []), self.optimiser)
        while (decision := self._step()) is None:
            pass
        self.recipe.act(decision, self.optimiser)
        after = self.recipe.candidate.narrow()
        ends = [self.problem.expected(model) for model in (after, before)]
        return after if ends[0] <= max(self.problem.tau, ends[1]) else before

    def _step(self) -> Decision | None:
        x = self.problem.examples.batch(self.batches.next())
        loss, _ = self.recipe(x, self.recipe.noise(len(x), self.noise))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.recipe.update(self.optimiser)
        return self.recipe.decide()


@dataclass
class Search:
    """A bisection in progress: what was spent, and the smallest size that is enough."""

    problem: Problem
    horizon: int
    spent: int = 0
    best: Attempt | None = None

    def is_enough(self, n: int) -> bool:
        """Train a size, unless the limit is reached."""
        if self.spent >= self.problem.limit:
            return False
        attempt = Attempt(self.problem, n, self.horizon)
        found = attempt.search(self.problem.limit - self.spent)
        self.spent += attempt.spent
        if found:
            self.best = attempt
        return found


def run(problem: Problem, setting: str) -> Answer:
    """Bisect, and finish the smallest size that is enough."""
    search = Search(problem, int(setting))
    smallest(problem.n, search.is_enough)
    if search.best is None:
        search.best = Attempt(problem, problem.n, search.horizon)
        search.best.search(max(1, problem.limit - search.spent))
        search.spent += search.best.spent
    before = search.best.spent
    model = search.best.finish()
    return Answer(model, search.spent + search.best.spent - before, setting)


METHOD = Method(
    run, setting=lambda name: str(ControllerConfig.fit_patience), knob="horizon of the forecast, in batches"
)
