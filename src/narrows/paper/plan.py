"""What an experiment consists of: its options, its jobs (one training each, or two), and the rows they give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from narrows.errors import NarrowsError
from narrows.training.config import TrainConfig

RECIPES = ("paper", "fast")
Name = Literal["training", "front", "reconstructions", "table"]
Status = Literal["done", "missing", "failed", "not yet"]


@dataclass(frozen=True)
class Options:
    """How an experiment of the paper is repeated."""

    budget: float = 1.0
    """Share of the paper's batches: 1 is all of them, 0.1 a tenth. The fast recipe may end sooner."""
    recipe: str = "paper"
    """paper, fast, or paper,fast."""
    only: str | None = None
    """A part of the rows: sets (mnist), sets and sizes (mnist-5), or values of tau (6,10)."""
    seeds: int = 1
    """Runs of every row, with seeds 0, 1, ..."""
    width: int = 32
    """Size of the networks, as for `narrows train`."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; auto takes an accelerator when there is one."""
    one_run: bool = False
    """front: all values of tau from one run, always of the fast recipe, beside the separate ones that are there."""

    def checked(self, experiment: Name) -> "Options":
        """Refuse what cannot be run, naming option, rule and value."""
        if not 0 < self.budget <= 1:
            raise NarrowsError(
                f"--budget must be above 0 and at most 1 (all of the paper's batches); it is {self.budget:g}"
            )
        if self.seeds < 1:
            raise NarrowsError(f"--seeds must be at least 1; it is {self.seeds}")
        if self.width < 1:
            raise NarrowsError(f"--width must be at least 1; it is {self.width}")
        for recipe in self.recipes():
            if recipe not in RECIPES:
                raise NarrowsError(f"--recipe must be paper, fast or paper,fast; it is {self.recipe!r}")
        if self.one_run and experiment != "front":
            raise NarrowsError(f"--one-run is for `narrows reproduce front`, not {experiment}")
        return self

    def wanted(self) -> list[str] | None:
        """Return what --only names."""
        return None if self.only is None else [word.strip() for word in self.only.split(",")]

    def recipes(self) -> list[str]:
        """Return the recipes to run; from one run there is only the fast one."""
        return ["fast"] if self.one_run else list(dict.fromkeys(self.recipe.split(",")))

    def batches(self, paper: int) -> int:
        """Return the share of the paper's batches that is to be trained."""
        return max(1, round(self.budget * paper))

    def settings(self, recipe: str, seed: int) -> dict[str, Any]:
        """Return what all runs of an experiment share."""
        return {"recipe": recipe, "seed": seed, "width": self.width, "device": self.device}


@dataclass(frozen=True)
class Job:
    """One row of an experiment (from one run: several), before it is trained."""

    key: str
    """Its folder's name, such as mnist-5-paper-0."""
    names: tuple[str, ...]
    """What --only may call it."""
    config: TrainConfig
    """The run."""
    baseline: TrainConfig | None = None
    """The paper's experiment 4: the plain VAE that is trained first; its last error is the run's tau."""
    taus: tuple[float, ...] = ()
    """A front from one run: its values of tau."""
    marks: tuple[int, ...] = ()
    """Batches after which the open gates are counted."""
    shown: int = 0
    """So many test images are kept with their reconstructions; of MNIST they are sevens."""

    def row(self, status: Status, reason: str = "", tau: float | None = None) -> "Row":
        """Return the row of this job before anything is known of it."""
        config = self.config
        n = 2 * config.as_good_as if config.as_good_as is not None else config.n
        assert n != "auto"
        return Row(
            set=config.data,
            n=n,
            tau=config.tau if tau is None else tau,
            recipe=config.recipe,
            seed=config.seed,
            one_run=bool(self.taus),
            width=config.width,
            limit=0 if config.steps == "auto" else config.steps,
            status=status,
            reason=reason,
        )

    def rows(self, status: Status, reason: str = "") -> "list[Row]":
        """Return all its rows, one a tau where it is a front."""
        return [self.row(status, reason, tau) for tau in self.taus] or [self.row(status, reason)]


@dataclass(frozen=True)
class Row:
    """One line of the table: what was asked, and what came out."""

    set: str
    n: int
    tau: float | None
    recipe: str
    seed: int
    one_run: bool
    width: int
    limit: int
    """Batches it may take."""
    status: Status
    reason: str = ""
    """Why it is missing, or failed."""
    dims: int | None = None
    met: bool | None = None
    error: float | None = None
    """On the test split; the next two are its 95% interval."""
    low: float | None = None
    high: float | None = None
    marks: tuple[int, ...] = ()
    """Batches after which the open gates were counted ..."""
    open: tuple[int, ...] = ()
    """... and how many there were; of a run that ended before, as many as at its end."""
    steps: int | None = None
    baseline_steps: int | None = None
    """Batches of the plain VAE that set tau."""
    seconds: float | None = None
    run: str = ""
    """Folder of the run, within the experiment's."""


def select(jobs: Sequence[Job], wanted: Sequence[str] | None) -> list[Job]:
    """Return the jobs that --only names; all without it."""
    if wanted is None:
        return list(jobs)
    known = list(dict.fromkeys(name for job in jobs for name in job.names))
    for word in wanted:
        if word not in known:
            raise NarrowsError(f"--only: there is no {word!r} in this experiment; it has {', '.join(known)}")
    return [job for job in jobs if set(wanted) & set(job.names)]
