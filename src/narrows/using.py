"""A trained model at work on any data the loader knows: codes, reconstructions, samples; a few rows at a time.

What comes out is written as it is made, into one .npy file that appears when it is whole, so memory does not grow with
the data. Codes are the posterior's means, the dimension that says most first; images come out as (N, H, W) or
(N, H, W, C), in the unit they went in.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows.data import ArrayExamples, Data, Examples, load, split
from narrows.data.cache import write_array
from narrows.data.progress import Progress, silent
from narrows.data.sources import kind_of
from narrows.errors import NarrowsError, OptionError
from narrows.files import atomic_file
from narrows.fronts import FrontFolder
from narrows.model import VAE, load_model, read_description
from narrows.objective import ERRORS, Error
from narrows.runs import RunFolder
from narrows.sampling import COMPONENTS, Kind, Sampler, check_sampler, fit_sampler, posterior_samples, prior
from narrows.training.config import TrainConfig, config_from_dict
from narrows.training.entry import IN_MEMORY
from narrows.training.setup import column_scaling, fingerprint
from narrows.training.units import in_own_units

ROWS = 256
"""Examples that go through the networks at a time."""


@dataclass(frozen=True)
class Trained:
    """A model with what is known about it."""

    path: Path
    model: VAE
    about: dict[str, Any]
    """Its description: tau, columns, whether tau was met on the validation split."""
    config: TrainConfig | None
    """Of the run it comes from; None for a model file alone."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example, (D,) or (C, H, W)."""
        assert self.model.network is not None
        return self.model.network.shape


def open_trained(path: Path | str) -> Trained:
    """Return the model of a run's folder, or of a .safetensors file."""
    path = Path(path)
    if path.is_file():
        return Trained(path, load_model(path), read_description(path), None)
    if FrontFolder(path).about.exists():
        raise NarrowsError(f"{path} is a front: choose one of its runs, such as {FrontFolder(path).path}/tau-...")
    folder = RunFolder(path)
    config = config_from_dict(folder.read_config(), str(folder.config))
    if not folder.model.exists():
        raise NarrowsError(f"{path} has no model yet; go on with `narrows resume {path}`")
    return Trained(folder.model, load_model(folder.model), read_description(folder.model), config)


def open_data(trained: Trained, source: str | None = None, progress: Progress = silent) -> Data:
    """Read data as the model's own were read; without a source, those it was trained on."""
    config = trained.config or TrainConfig(data=IN_MEMORY, values="any" if _takes_anything(trained) else "unit")
    if source is None and config.data == IN_MEMORY:
        raise NarrowsError(f"{trained.path} does not say where its data are; name the data")
    named = config.data if source is None else source
    kind = kind_of(named)
    size = "x".join(map(str, trained.shape[1:])) if trained.config is None and len(trained.shape) == 3 else None
    try:
        data = load(
            named,
            config.values,
            origin=config.source if kind == "set" and named == config.data else "auto",
            image_size=(config.image_size or size) if kind in ("folder", "hub") else None,
            skip_broken=config.skip_broken if kind == "folder" else False,
            columns=trained.about.get("columns") if kind == "table" else None,
            progress=progress,
        )
    except OptionError as error:
        raise NarrowsError(error.otherwise) from None
    if data.examples.shape != trained.shape:
        here, there = ("x".join(map(str, shape)) for shape in (data.examples.shape, trained.shape))
        raise NarrowsError(f"{data.name} has examples of {here}; the model {trained.path} takes {there}")
    if source is None:
        check_unchanged(trained, data)
    return data


def check_unchanged(trained: Trained, data: Data) -> None:
    """Refuse data other than those of training: what would be taken for test inputs may have been trained on."""
    config, known = trained.config, trained.about.get("fingerprint")
    if config is None or known is None:
        return
    served = data
    if data.examples.shape == trained.shape:
        served, _ = in_own_units(data, split(data, config.split_seed).train, column_scaling(config, data))
    if fingerprint(served) != known:
        raise NarrowsError(
            f"{data.name} is not what {trained.path.parent} was trained on; bring back those data, or train anew"
        )


def _takes_anything(trained: Trained) -> bool:
    return trained.model.scaling.output == "linear"


@torch.no_grad()
def encode(trained: Trained, data: Data, progress: Progress = silent) -> Iterator[np.ndarray]:
    """Yield codes, (rows, n) float32."""
    for x in _batches(data, "encoding", progress):
        yield trained.model.encode(x).mean.numpy()


@torch.no_grad()
def reconstruct(
    trained: Trained, data: Data, progress: Progress = silent, told: Callable[[Tensor], None] = lambda errors: None
) -> Iterator[np.ndarray]:
    """Yield decoded means in the layout of images; `told` hears the error of each, as the run's promise counts it."""
    error = promised_error(trained)
    for x in _batches(data, "reconstructing", progress):
        y = trained.model.reconstruct(x)
        told(error(x, y))
        yield layout(y)


def read_codes(path: Path) -> np.ndarray:
    """Map an array of codes from a .npy file."""
    try:
        codes = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise NarrowsError(f"cannot read the codes {path}: {error.strerror or error}") from None
    except Exception:  # a damaged header can break numpy's reader in any way
        raise NarrowsError(f"cannot read the codes {path}: it is no .npy file of numbers, (N, dimensions)") from None
    if isinstance(codes, np.ndarray):
        return codes
    codes.close()
    raise NarrowsError(f"cannot read the codes {path}: it is an archive (.npz); save one array of it with numpy.save")


@torch.no_grad()
def decode(trained: Trained, codes: np.ndarray, progress: Progress = silent) -> Iterator[np.ndarray]:
    """Yield what codes, (N, n), stand for."""
    if codes.ndim != 2 or codes.shape[1] != trained.model.n or codes.dtype.kind not in "fiu":
        raise NarrowsError(
            f"codes of {trained.path} are numbers, (N, {trained.model.n}); these are {codes.dtype} {codes.shape}"
        )
    if not len(codes):
        raise NarrowsError("there are no codes to decode: the file holds 0 rows")
    for start in range(0, len(codes), ROWS):
        rows = np.asarray(codes[start : start + ROWS])
        _refuse_first(~np.isfinite(rows), start, "is not finite; codes are finite numbers")
        _refuse_first(np.abs(rows) > np.finfo(np.float32).max, start, "is too large for single precision (3.4e+38)")
        decoded = layout(trained.model.decode(torch.from_numpy(rows.astype(np.float32))))
        _refuse_first(~np.isfinite(decoded), start, "is too large: what it stands for has no room in single precision")
        yield decoded
        progress("decoding", min(start + ROWS, len(codes)), len(codes))


def _refuse_first(bad: np.ndarray, start: int, why: str) -> None:
    """Refuse the first code of a part, counted from 0 in the file, that is bad anywhere."""
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(1))
    if len(rows):
        raise NarrowsError(f"code {start + int(rows[0])} {why}")


@torch.no_grad()
def sample(
    trained: Trained, count: int, seed: int = 0, progress: Progress = silent, sampler: Sampler | None = None
) -> Iterator[np.ndarray]:
    """Yield new examples, decoded from the sampler's codes (without one, the prior's); the same for the same seed."""
    sampler = sampler or prior(trained.model.n)
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, count, ROWS):
        yield layout(trained.model.decode(sampler.draw(min(ROWS, count - start), generator)))
        progress("sampling", min(start + ROWS, count), count)


def make_sampler(
    trained: Trained, kind: Kind, components: int = COMPONENTS, seed: int = 0, progress: Progress = silent
) -> Sampler:
    """Return a sampler for a run's model; one that is fitted reads the run's training split."""
    check_sampler(kind, components)
    if kind == "prior":
        return prior(trained.model.n)
    config = of_a_run(trained, f"a {kind} is fitted to the training split")
    data = open_data(trained, progress=progress)
    train = split(data, config.split_seed).train
    codes = posterior_samples(trained.model, exact(data), train, seed, progress)
    return fit_sampler(kind, codes, components, seed)


def of_a_run(trained: Trained, why: str) -> TrainConfig:
    """Return the settings of the model's run; a model file alone does not say which examples trained it."""
    if trained.config is None:
        raise NarrowsError(f"{trained.path} is a model file alone: {why}; name the run's folder")
    return trained.config


def promised_error(trained: Trained) -> Error:
    """Return the error that the run's promise is about, for examples in the user's units."""
    error, unit = ERRORS[trained.about.get("error", "squared")], unit_of(trained)
    return lambda x, y: error(x / unit, y / unit)


def unit_of(trained: Trained) -> Tensor | float:
    """Return the units in which a table's errors are counted."""
    units = trained.about.get("units")
    return 1.0 if units is None else torch.tensor(units["unit"], dtype=torch.float64)


def check_target(path: Path) -> None:
    """Refuse a name that no .npy file can have."""
    if path.suffix != ".npy":
        raise NarrowsError(f"{path}: what is written is a .npy file; give it that ending")
    if not path.parent.is_dir():
        raise NarrowsError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise NarrowsError(f"{path} is a folder; name a file")


def write(path: Path, parts: Iterator[np.ndarray]) -> tuple[int, ...]:
    """Write the parts of an array into one .npy file, whole or not at all; return its shape."""
    check_target(path)
    try:
        with atomic_file(path) as file:
            first = next(parts)
            count = write_array(file, first.shape[1:], first.dtype, itertools.chain([first], parts))
    except OSError as error:
        raise NarrowsError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    return (count, *first.shape[1:])


def layout(x: Tensor) -> np.ndarray:
    """Return examples as users keep them: (N, D), (N, H, W) or (N, H, W, C)."""
    if x.ndim == 4:
        x = x[:, 0] if x.shape[1] == 1 else x.movedim(1, -1)
    return x.numpy()


@dataclass(frozen=True, eq=False)
class ExactRows:
    """A table's rows in double precision, in its own units: a timestamp's seconds need it."""

    array: np.ndarray
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.array)

    def batch(self, index: np.ndarray) -> Tensor:
        """Return the rows at `index`, (rows, columns) float64."""
        return torch.from_numpy(self.array[index].astype(np.float64))


def exact(data: Data) -> Examples:
    """Return the examples as a saved model takes them."""
    examples = data.examples
    return (
        ExactRows(examples.array, examples.shape) if data.columns and isinstance(examples, ArrayExamples) else examples
    )


def _batches(data: Data, what: str, progress: Progress) -> Iterator[Tensor]:
    examples = exact(data)
    for start in range(0, len(examples), ROWS):
        stop = min(start + ROWS, len(examples))
        yield examples.batch(np.arange(start, stop))
        progress(what, stop, len(examples))
