"""The recipes by name, and what differs between them for everything outside this package.

This module loads no torch, so that `narrows --help` and `narrows watch` start at once; `base.build_recipe` imports a
recipe when a run needs it. To add a recipe, write its class in this package and add it to `RecipeName` and `RECIPES`.
"""

from dataclasses import dataclass
from typing import Literal

RecipeName = Literal["fast", "paper", "plain"]
Effort = Literal["quick", "normal", "thorough"]


@dataclass(frozen=True)
class RecipeTraits:
    """What a recipe does, as far as settings, training and reports need to know."""

    home: str
    """The class that implements it, "module:Class"."""
    samples_gates: bool = False
    """Whether gates are random while training, with learned probabilities; otherwise each is open or closed."""
    closes_gates: bool = True
    """Whether dimensions close while training; otherwise all of them stay open."""
    measures_heldout: bool = True
    """Whether held-out error and costs of removal are measured while training, and decisions follow from them."""
    learns_multiplier: bool = False
    """Whether lambda is learned by gradient; otherwise it is held and then steered by the held-out error."""
    ends_by_itself: bool = True
    """Whether the run ends when the answer is found; otherwise after a number of batches."""
    needs_tau: bool = True
    """Whether a promise must be given; otherwise the error may simply become as small as it gets."""
    learning_rate: float = 2e-3
    """The learning rate when the user gives none."""
    default_steps: int | None = None
    """Batches when the user gives no number; None where the run ends by itself."""
    papers_networks: bool = False
    """Whether convolutional networks are the paper's, however many dimensions they have."""
    unused: tuple[str, ...] = ()
    """Settings that mean nothing to it, and are refused."""


RECIPES: dict[str, RecipeTraits] = {
    "fast": RecipeTraits("narrows.recipes.fast:Fast", unused=("estimator", "gate_noise")),
    "paper": RecipeTraits(
        "narrows.recipes.paper:PaperRecipe",
        samples_gates=True,
        measures_heldout=False,
        learns_multiplier=True,
        ends_by_itself=False,
        learning_rate=1e-3,
        papers_networks=True,
        default_steps=50_000,  # the paper's first experiment
        unused=("effort",),
    ),
    "plain": RecipeTraits(
        "narrows.recipes.fast:Plain", closes_gates=False, needs_tau=False, unused=("estimator", "gate_noise")
    ),
}
"""Every recipe, by the name that the `recipe` setting has."""
