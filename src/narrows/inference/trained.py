"""A trained model together with its description and settings, and data read in the way its training data were."""

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows._util.checks import path_argument
from narrows._util.errors import NarrowsError, OptionError, setting
from narrows._util.files import check_regular
from narrows._util.progress import Progress, silent
from narrows._util.text import printable
from narrows.data import Data, split
from narrows.data.counts import as_counts, check_counts
from narrows.data.load import MissingData, kind_of, read
from narrows.data.mixed import Column
from narrows.data.streams.addresses import is_address
from narrows.model.storage import load_model, read_description
from narrows.model.vae import VAE
from narrows.objective import COUNT_ERRORS, ERRORS, count_values, mixed_values, observed, value_by_value
from narrows.runs.folder import IN_MEMORY, RunFolder, data_moved, resuming
from narrows.runs.front import FrontFolder
from narrows.training.config import TrainConfig, config_from_dict
from narrows.training.fingerprint import fingerprint
from narrows.training.setup import in_training_units

ROWS = 256
"""Examples that go through the networks at a time."""


@dataclass(frozen=True)
class Trained:
    """A saved model and everything that is known about it."""

    path: Path
    """The model file."""
    model: VAE
    about: dict[str, Any]
    """The description in the model file: tau, error, columns, units, fingerprint of the data."""
    config: TrainConfig | None
    """The settings of its run; None if only the model file was opened."""
    trust_data: bool = False
    """Whether the data that the settings name may be read although nothing proves that they are the model's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example, (D,) or (C, H, W)."""
        return tuple(self.about["shape"]) if self.model.network is None else self.model.network.shape

    @property
    def columns(self) -> list[str]:
        """The names of a table's columns, as they are shown; empty for other data."""
        return [printable(name) for name in self.about.get("columns") or ()]

    @property
    def tau(self) -> float | None:
        """The bound on the error that the run promised; None for a plain VAE without one."""
        return self.about.get("tau")

    @property
    def error_name(self) -> str:
        """The name of the error that the promise is about, such as "squared"."""
        return str(self.about.get("error", "squared"))

    @cached_property
    def unit(self) -> Tensor | float:
        """The unit in which each column's error counts, (D,) float64; 1.0 where all columns share one unit."""
        units = self.about.get("units")
        return 1.0 if units is None else torch.tensor(units["unit"], dtype=torch.float64)

    def error(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the error of each of the outputs y for the inputs x, (batch,), counted as the promise counts it."""
        if self.masked or self.blocks or self.error_name in COUNT_ERRORS:
            return self.value_errors(x, y).sum(1) if x.ndim == 2 else observed(self.error_name)(x, y)
        return ERRORS[self.error_name](x / self.unit, y / self.unit)

    def value_errors(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the same before it is summed: the error of each value, in the shape of x, 0 where x is missing."""
        if self.error_name in COUNT_ERRORS:
            return count_values(self.model.scaling.dispersion)(x, y)
        counted = value_by_value(self.error_name)
        if self.blocks:
            counted = mixed_values(self.blocks, self.model.scaling.shift[-sum(self.blocks) :])
        return counted(x / self.unit, y / self.unit)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The numbers of levels of a table's categories."""
        return () if self.model.network is None else self.model.network.blocks

    @property
    def table(self) -> tuple[Column, ...]:
        """The columns of the table that the model was trained on, in its order; empty for other data."""
        return tuple(Column(one["name"], one["kind"], tuple(one["levels"])) for one in self.about.get("table", ()))

    @property
    def masked(self) -> bool:
        """Whether the model takes inputs with missing values."""
        return self.model.network is not None and self.model.network.masked

    def filled(self, x: Tensor) -> Tensor:
        """Return inputs with reconstructions in place of what is missing."""
        return torch.where(torch.isnan(x), self.model.reconstruct(x).to(x.dtype), x) if self.masked else x

    def run_config(self, purpose: str) -> TrainConfig:
        """Return the settings of the run; raise if there are none, because `purpose` needs the run's splits."""
        if self.config is None:
            raise NarrowsError(f"{self.path} is only a model file, but {purpose}; pass the run's folder instead")
        return self.config


def open_trained(path: str | os.PathLike[str], trust_data: bool = False) -> Trained:
    """Open the model of a run's folder, or a .safetensors file.

    Arguments:
        path: The folder or the file.
        trust_data: Read the data that the run's settings name even if the model has no fingerprint of its data, or if
            they are on another machine.

    Raises:
        NarrowsError: There is no model, or it is damaged.
    """
    path = path_argument("run", path)
    check_regular(path)
    if path.is_file():
        model = load_model(path)
        if model.scaling.batches:
            raise NarrowsError(
                f"{path} was fitted with batches, and only the estimator in Python can be told the batch of each row; "
                "keep that with pickle, and use transform(X, batch=...)"
            )
        return Trained(path, model, read_description(path), None)
    if FrontFolder(path).about.exists():
        raise NarrowsError(f"{path} is a front; choose one of its runs, such as {path}/tau-...")
    folder = RunFolder(path)
    config = config_from_dict(folder.read_config(), str(folder.config))
    if not folder.model.exists():
        raise NarrowsError(f"{path} has no model yet; continue it with `{resuming(path)}`")
    return Trained(folder.model, load_model(folder.model), read_description(folder.model), config, trust_data)


def was_named(folder: RunFolder, given: Collection[str]) -> bool:
    """Return whether the data of a run are at one of the addresses that the user has just given for them."""
    data = str(folder.read_config().get("data"))
    return data in given and is_address(data)


def open_data(trained: Trained, source: str | None = None, progress: Progress = silent) -> Data:
    """Read `source` as the model's training data were read; without a source, read the training data again.

    A run's settings name its data, and a run from someone else could name any file of yours, whose content would be
    shown in a report. Only data with the fingerprint that is stored in the model are therefore used without a source.
    Data on another machine cannot be compared without asking its server, so they are not opened at all.
    """
    values = "unit" if trained.model.scaling.output == "sigmoid" else "any"
    config = trained.config or TrainConfig(data=IN_MEMORY, values=values)  # type: ignore[arg-type]
    if source is None and config.data == IN_MEMORY:
        raise NarrowsError(f"{trained.path} does not say where its data are; name the data, or give data=... in Python")
    named = config.data if source is None else source
    if source is None and trained.about.get("fingerprint") is None and not trained.trust_data:
        raise NarrowsError(
            f"{trained.path} has no fingerprint of the data it was trained on, so {named}, which its run names, is not "
            f"opened: a run from someone else could name any file of yours; use {setting('trust_data')} if you trust it"
        )
    if source is None and not trained.trust_data and is_address(named):
        raise NarrowsError(
            f"{named}, which the run {trained.path.parent} names as its data, is on another machine, and a run from "
            f"someone else could name any server; use {setting('trust_data')} if it may be asked"
        )
    size = "x".join(map(str, trained.shape[1:])) if trained.config is None and len(trained.shape) == 3 else None
    options = replace(
        config.reading(),
        source=config.source if named == config.data else "auto",
        image_size=config.image_size or size,
        columns=[column.name for column in trained.table] or trained.about.get("columns"),
        missing="mask" if trained.masked else "refuse",
        group_column=config.group_column if source is None else None,
        weight_column=config.weight_column if source is None else None,
    )
    try:
        data = read(named, options.only_for(kind_of(named)), progress, trained.table)
    except OptionError as error:
        raise error.otherwise from None
    except MissingData as error:
        if source is not None:
            raise
        file = trained.path.with_name("config.json")
        otherwise = "give the data where a command takes them, such as `narrows encode RUN DATA`"
        raise data_moved(named, file, otherwise) from error
    if data.examples.shape != trained.shape:
        here, there = ("x".join(map(str, shape)) for shape in (data.examples.shape, trained.shape))
        raise NarrowsError(f"{data.name} has examples of {here}; the model {trained.path} takes {there}")
    if trained.error_name in COUNT_ERRORS:
        data = as_counts(data)
        check_counts(data)
    if source is None:
        check_unchanged(trained, data)
    return data


def is_unchanged(trained: Trained, data: Data) -> bool:
    """Return whether `data` are the data that the model was trained on, as far as it says what those were."""
    config, known = trained.config, trained.about.get("fingerprint")
    if config is None or known is None:
        return True
    splits = split(data, config.split_seed)
    if data.examples.shape == trained.shape:
        data, _ = in_training_units(config, data, splits.train)
    return bool(fingerprint(data, splits) == known)


def check_unchanged(trained: Trained, data: Data) -> None:
    """Raise if `data` are not the training data: the model may have been trained on their test split."""
    if not is_unchanged(trained, data):
        run = trained.path.parent
        raise NarrowsError(f"{data.name} is not what {run} was trained on; restore those data, or train again")


def training_data(trained: Trained, given: Data | None, progress: Progress = silent) -> Data:
    """Return the data that the model was trained on: `given` if they are those, or else read again."""
    if given is None:
        return open_data(trained, progress=progress)
    check_unchanged(trained, given)
    return given


def layout(x: Tensor) -> np.ndarray:
    """Return examples in the layout in which users keep them: (N, D), (N, H, W) or (N, H, W, C)."""
    if x.ndim == 4:
        x = x[:, 0] if x.shape[1] == 1 else x.movedim(1, -1)
    return x.numpy()
