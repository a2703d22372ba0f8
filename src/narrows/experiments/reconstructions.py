"""Experiment 3: what is lost first. dSprites with tau = 20 and with tau = 35, the same test images through both.

The paper does not say how long it trained; as its first experiment has the same data and tau, its 50,000 batches are
taken. (The paper's text says tau = 20, the caption of its figure 25.)
"""

from narrows.experiments.plan import Job, Options
from narrows.experiments.training import BATCHES
from narrows.training.config import TrainConfig

TAUS = (20, 35)


def jobs(options: Options) -> list[Job]:
    """Return one run a tau, recipe and seed."""
    return [
        Job(
            f"tau-{tau}-{recipe}-{seed}",
            (str(tau),),
            TrainConfig(
                data="dsprites",
                tau=float(tau),
                n=10,
                steps=options.batches(BATCHES),
                **options.settings(recipe, seed),
            ),
            shown=12,
        )
        for recipe in options.recipes()
        for seed in range(options.seeds)
        for tau in TAUS
    ]
