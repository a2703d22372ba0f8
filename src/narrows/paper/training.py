"""Experiment 1: a typical training run. dSprites, n = 10, tau = 20, 50,000 batches; error, gates, lambda and hits."""

from narrows.experiments.plan import Job, Options
from narrows.training.config import TrainConfig

BATCHES = 50_000
MARKS = (10_000, 20_000, 25_000)
"""Where the paper says how many gates are open."""


def marks(options: Options) -> tuple[int, ...]:
    """Return the paper's marks that the budget reaches, and the end: a part of the batches is the run's beginning."""
    end = options.batches(BATCHES)
    return (*(mark for mark in MARKS if mark < end), end)


def jobs(options: Options) -> list[Job]:
    """Return one run a recipe and seed."""
    return [
        Job(
            f"dsprites-{recipe}-{seed}",
            ("dsprites",),
            TrainConfig(
                data="dsprites",
                tau=20.0,
                n=10,
                steps=options.batches(BATCHES),
                **options.settings(recipe, seed),
            ),
            marks=marks(options),
        )
        for recipe in options.recipes()
        for seed in range(options.seeds)
    ]
