"""What an experiment consists of: its options, its jobs (one or two trainings each), and the rows that they yield."""

from dataclasses import dataclass
from typing import Any, Literal

from narrows._util.errors import NarrowsError, setting
from narrows._util.text import brief
from narrows.training.config import TrainConfig

Name = Literal["training", "front", "reconstructions", "table"]
Status = Literal["done", "missing", "failed", "not yet"]
MOST_SEEDS = 1_000
COMPARED = ("paper", "fast")
"""The recipes that an experiment can run, in the order of the tables."""


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
    """Runs per row, with seeds 0, 1, ..."""
    width: int = 32
    """Size of the networks, as for `narrows train`."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; auto uses a CUDA device if there is one."""
    one_run: bool = False
    """front: take all values of tau from one run of the fast recipe; separate runs in the folder stay beside it."""

    def check(self, experiment: Name) -> None:
        """Raise if an option cannot be used for the experiment."""
        if not 0 < self.budget <= 1:
            raise NarrowsError(f"{setting('budget')} must be above 0 and at most 1; it is {self.budget:g}")
        for name in ("seeds", "width"):
            if getattr(self, name) < 1:
                raise NarrowsError(f"{setting(name)} must be at least 1; it is {getattr(self, name)}")
        if self.seeds > MOST_SEEDS:
            raise NarrowsError(f"{setting('seeds')} must be at most {MOST_SEEDS:,}; it is {brief(self.seeds)}")
        if not set(self.recipe.split(",")) <= set(COMPARED):
            raise NarrowsError(f"{setting('recipe')} must be paper, fast or paper,fast; it is {self.recipe!r}")
        if self.one_run and experiment != "front":
            raise NarrowsError(f"{setting('one_run')} is for `narrows reproduce front`, not for {experiment}")

    def only_names(self) -> list[str] | None:
        """Return the names in `only`; None if there is no such restriction."""
        return None if self.only is None else [name.strip() for name in self.only.split(",")]

    def runs(self) -> list[tuple[str, int]]:
        """Return the recipe and the seed of every repetition; a front from one run has only the fast recipe."""
        recipes = ["fast"] if self.one_run else list(dict.fromkeys(self.recipe.split(",")))
        return [(recipe, seed) for seed in range(self.seeds) for recipe in recipes]

    def batches(self, paper: int) -> int:
        """Return how many of the paper's batches to train."""
        return max(1, round(self.budget * paper))

    def config(self, recipe: str, seed: int, batches: int, **settings: Any) -> TrainConfig:
        """Return the settings of one run, for a share of the paper's `batches`."""
        shared: dict[str, Any] = {"recipe": recipe, "seed": seed, "width": self.width, "device": self.device}
        return TrainConfig(steps=self.batches(batches), **shared, **settings)


@dataclass(frozen=True)
class Job:
    """One row of an experiment (with `one_run`, several rows), before it is trained."""

    key: str
    """The name of its folder, such as mnist-5-paper-0."""
    names: tuple[str, ...]
    """The names by which `only` selects it."""
    config: TrainConfig
    """The settings of its run."""
    baseline: TrainConfig | None = None
    """Experiment 4 of the paper: the plain VAE that is trained first; its last error is the run's tau."""
    taus: tuple[float, ...] = ()
    """The values of tau of a front from one run."""
    marks: tuple[int, ...] = ()
    """Batches after which the open gates are counted."""
    shown: int = 0
    """Test images to keep with their reconstructions; for MNIST they are sevens."""

    def row(self, status: Status, reason: str = "", tau: float | None = None) -> "Row":
        """Return the row of this job without results."""
        config = self.config
        n = 2 * config.as_good_as if config.as_good_as is not None else config.n
        assert n != "auto"
        assert config.steps != "auto"
        return Row(
            set=config.data,
            n=n,
            tau=config.tau if tau is None else tau,
            recipe=config.recipe,
            seed=config.seed,
            one_run=bool(self.taus),
            width=config.width,
            limit=config.steps,
            status=status,
            reason=reason,
        )

    def rows(self, status: Status, reason: str = "") -> "list[Row]":
        """Return all rows of this job without results: one per tau for a front, otherwise one."""
        return [self.row(status, reason, tau) for tau in self.taus or (None,)]


@dataclass(frozen=True)
class Row:
    """One line of the table: the settings of a run, and its results."""

    set: str
    n: int
    tau: float | None
    recipe: str
    seed: int
    one_run: bool
    width: int
    limit: int
    """Batches, at most."""
    status: Status
    reason: str = ""
    """Why it is missing, or failed."""
    dims: int | None = None
    met: bool | None = None
    error: float | None = None
    """The error on the test split."""
    high: float | None = None
    """The upper end of that."""
    marks: tuple[int, ...] = ()
    """Batches after which the open gates were counted."""
    open: tuple[int, ...] = ()
    """Open gates at each of the marks; a run that ended before a mark has those of its end."""
    steps: int | None = None
    baseline_steps: int | None = None
    """Batches of the plain VAE that set tau."""
    seconds: float | None = None
    run: str = ""
    """The folder of the run, relative to that of the experiment."""
