"""Experiment 4: efficiency. How many dimensions are as good as a plain VAE with n? Five sets, n = 5, 10, 30.

First a plain VAE with n dimensions and tau = 0 for 200,000 batches; then one with 2n and gates, whose tau is the first
one's last error; open gates are counted after 200,000, 300,000 and 400,000 batches.

With the paper's recipe the plain VAE is Algorithm 1 itself: under tau = 0 the constraint is never met, so no gate ever
closes and lambda does what it did in the paper. Its error is that of the training batches, the mean of the last LAST
(the paper: a moving average with factor 0.95, which looks back as far). The fast recipe's plain VAE is that of
`--as-good-as`, whose held-out error is the promise.
"""

from narrows.experiments.plan import Job, Options
from narrows.training.config import SMALLEST, TrainConfig

SETS = ("dsprites", "cars3d", "shapes3d", "mnist", "cifar100")
SIZES = (5, 10, 30)
PLAIN_BATCHES, BATCHES = 200_000, 400_000
MARKS = (200_000, 300_000, 400_000)
LAST = 20


def jobs(options: Options) -> list[Job]:
    """Return one job a set, size, recipe and seed, small ones first: each set has a row soon."""
    return [
        _job(options, data, n, recipe, seed)
        for seed in range(options.seeds)
        for n in SIZES
        for data in SETS
        for recipe in options.recipes()
    ]


def _job(options: Options, data: str, n: int, recipe: str, seed: int) -> Job:
    shared = {"data": data, "steps": options.batches(BATCHES), **options.settings(recipe, seed)}
    marks = tuple(options.batches(mark) for mark in MARKS)
    key, names = f"{data}-{n}-{recipe}-{seed}", (data, f"{data}-{n}")
    if recipe == "fast":
        return Job(key, names, TrainConfig(as_good_as=n, **shared), marks=marks)
    plain = {"n": n, "tau": SMALLEST, "constraint": "plain", "log_every": LAST}
    baseline = TrainConfig(**{**shared, **plain, "steps": options.batches(PLAIN_BATCHES)})
    return Job(key, names, TrainConfig(n=2 * n, constraint="plain", **shared), baseline, marks=marks)
