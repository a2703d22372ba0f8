"""narrows, with its three efforts, and the recipe of the paper that it implements.

De Boom, Wauthier, Verbelen and Dhoedt, "Dynamic Narrowing of VAE Bottlenecks Using GECO and L0 Regularization" (2020).

Choices of ours
1. narrows runs with its defaults: nothing but tau, n, the network and the seed is given.
2. The paper's recipe runs with its authors' settings, which are narrows' defaults for it: Adam at 0.001 in place of the
   common optimiser and rate, 50,000 batches, the plain constraint on the paper's sets. The knob is the number of
   batches.
3. The paper's recipe has the networks of all the others, also where narrows would give it the paper's.
"""

from dataclasses import replace

from methods.problem import Answer, Method, Problem
from narrows.recipes.registry import RECIPES, Effort, RecipeName
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.sinks import MemorySink
from narrows.training.trainer import Trainer


def run(problem: Problem, recipe: RecipeName, effort: Effort, steps: int) -> Answer:
    """Train once and return the model that the run ends with."""
    config = replace(
        problem.config,
        recipe=recipe,
        effort=effort,
        steps=steps,
        learning_rate=RECIPES[recipe].learning_rate,
        constraint="auto",
    )
    sink = MemorySink()
    result = Trainer(make_plan(config, problem.plan.data), Listener(), problem.network).start(sink)
    assert sink.model is not None
    return Answer(sink.model, result.steps, effort if recipe == "fast" else str(steps))


def _narrows(effort: Effort) -> Method:
    return Method(lambda problem, setting: run(problem, "fast", effort, problem.limit))


QUICK, NORMAL, THOROUGH = _narrows("quick"), _narrows("normal"), _narrows("thorough")
PAPER = Method(
    lambda problem, setting: run(problem, "paper", "normal", min(int(setting), problem.limit)),
    setting=lambda name: str(RECIPES["paper"].default_steps),
    knob="number of batches",
)
