"""Experiment 2: the front of the bottleneck. MNIST, n = 32, ten values of tau, 2,000 epochs each.

An epoch is 60,000 / 64 = 937.5 batches, so the paper trains 1,875,000 for every tau. With `one_run` the ten sizes come
from a single run of the fast recipe (training/front.py); its budget is per tau.
"""

from dataclasses import replace

from narrows.paper.plan import Job, Options

TAUS = (3, 4, 6, 8, 10, 14, 18, 22, 26, 30)
BATCHES = 1_875_000


def jobs(options: Options) -> list[Job]:
    """Return one run per tau, recipe and seed; with `one_run`, one run per seed for all values of tau."""
    return [job for recipe, seed in options.runs() for job in _jobs(options, recipe, seed)]


def _jobs(options: Options, recipe: str, seed: int) -> list[Job]:
    config = options.config(recipe, seed, BATCHES, data="mnist", n=32)
    if options.one_run:
        only = options.only_names()
        chosen = tuple(float(tau) for tau in TAUS if only is None or str(tau) in only)
        part = "" if len(chosen) == len(TAUS) else "".join(f"-{tau:g}" for tau in chosen)
        return [Job(f"one-run{part}-{seed}", tuple(map(str, TAUS)), config, taus=chosen, shown=1)]
    return [Job(f"tau-{t}-{recipe}-{seed}", (str(t),), replace(config, tau=float(t)), shown=1) for t in TAUS]
