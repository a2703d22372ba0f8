"""Experiment 4: efficiency. How many dimensions are as good as a plain VAE with n? Five sets, n = 5, 10, 30.

First a plain VAE with n dimensions and tau = 0 trains for 200,000 batches; then a VAE with 2n dimensions and gates,
whose tau is the last error of the first. Open gates are counted after 200,000, 300,000 and 400,000 batches.

With the paper's recipe the plain VAE is Algorithm 1 itself: under tau = 0 the constraint is never met, so no gate ever
closes and lambda behaves as in the paper. Its error is that of the training batches, the mean of the last LAST (the
paper: a moving average with factor 0.95, which covers as many). A recipe that measures held-out errors has its own
plain VAE, that of `as_good_as`, whose held-out error is the promise.
"""

from narrows.paper.plan import Job, Options
from narrows.recipes.registry import RECIPES
from narrows.training.config import SMALLEST

SETS = ("dsprites", "cars3d", "shapes3d", "mnist", "cifar100")
SIZES = (5, 10, 30)
PLAIN_BATCHES, BATCHES = 200_000, 400_000
MARKS = (200_000, 300_000, 400_000)
LAST = 20


def jobs(options: Options) -> list[Job]:
    """Return one job per set, size, recipe and seed, small sizes first, so that each set has a row soon."""
    pairs = [(data, n) for n in SIZES for data in SETS]
    return [_job(options, data, n, recipe, seed) for data, n in pairs for recipe, seed in options.runs()]


def _job(options: Options, data: str, n: int, recipe: str, seed: int) -> Job:
    marks = tuple(options.batches(mark) for mark in MARKS)
    key, names = f"{data}-{n}-{recipe}-{seed}", (data, f"{data}-{n}")
    if RECIPES[recipe].measures_heldout:
        return Job(key, names, options.config(recipe, seed, BATCHES, data=data, as_good_as=n), marks=marks)
    plain = {"n": n, "tau": SMALLEST, "log_every": LAST}
    baseline = options.config(recipe, seed, PLAIN_BATCHES, data=data, constraint="plain", **plain)
    config = options.config(recipe, seed, BATCHES, data=data, constraint="plain", n=2 * n)
    return Job(key, names, config, baseline, marks=marks)
