"""Experiment 1: a typical training run. dSprites, n = 10, tau = 20, 50,000 batches; error, gates, lambda and hits."""

from narrows.paper.plan import Job, Options

BATCHES = 50_000
MARKS = (10_000, 20_000, 25_000)
"""Batches after which the paper says how many gates are open."""


def marks(options: Options) -> tuple[int, ...]:
    """Return those of the paper's marks that the budget reaches, and the end of the run."""
    end = options.batches(BATCHES)
    return (*(mark for mark in MARKS if mark < end), end)


def jobs(options: Options) -> list[Job]:
    """Return one run per recipe and seed."""
    return [
        Job(
            f"dsprites-{recipe}-{seed}",
            ("dsprites",),
            options.config(recipe, seed, BATCHES, data="dsprites", tau=20.0, n=10),
            marks=marks(options),
        )
        for recipe, seed in options.runs()
    ]
