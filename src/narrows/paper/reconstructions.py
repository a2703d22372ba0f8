"""Experiment 3: what is lost first. dSprites with tau = 20 and with tau = 35, the same test images through both.

The paper does not say how long it trained. Its first experiment has the same data and tau, so its 50,000 batches are
used here. (The paper's text says tau = 20, the caption of its figure 25.)
"""

from narrows.paper.plan import Job, Options
from narrows.paper.training import BATCHES

TAUS = (20, 35)


def jobs(options: Options) -> list[Job]:
    """Return one run per tau, recipe and seed."""
    return [
        Job(
            f"tau-{tau}-{recipe}-{seed}",
            (str(tau),),
            options.config(recipe, seed, BATCHES, data="dsprites", tau=float(tau), n=10),
            shown=12,
        )
        for recipe, seed in options.runs()
        for tau in TAUS
    ]
