"""Sets of the Hugging Face hub, and folders its `datasets` library can read: hf:NAME[@CONFIG][::COLUMN].

NAME is that of a set, "ylecun/mnist", or of a local folder with Parquet, CSV or image files. The split "train" is
taken; a split "test", if any, becomes the test split. Code that comes with a set is never run, and pictures are read
from the set's own files only: a table may name other files, which could be any of yours. The examples are in

1. the column that is named,
2. else the only column of images,
3. else the first of the columns image, img, images, x, data, pixels, pixel_values, features,
4. else all columns together, as one vector per example, if each holds one number.

Images follow the rules of images.py; `size` is needed if theirs differ. Lists and arrays of numbers must have one
shape; uint8 and bool stay as they are, other integers become floats. Class labels are never data: they are kept as
factors, unless some are missing, as in the hidden labels of a contest.

`datasets` downloads to its own cache of Arrow tables, from which random batches are slow. So the column is converted
once into our cache, under a name made from the splits' fingerprints: the attribute `_fingerprint` of a split, by which
the library names its own cached results, changes with the files that a set was made from.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import logging
import os
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from narrows._util.errors import NarrowsError, OptionError, setting
from narrows._util.files import check_regular
from narrows._util.progress import Progress, silent, steps
from narrows.data.arrays import from_array
from narrows.data.cache import cached_array
from narrows.data.dataset import Data, Values
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factors, kinds
from narrows.data.readers.images import Pictures, cached_pictures
from narrows.data.readers.shared import CHUNK_BYTES

_VERSION = 1  # a change of the conversion needs a new version
_USUAL_COLUMNS = ("image", "img", "images", "x", "data", "pixels", "pixel_values", "features")
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")


def load_hub(
    source: str, values: Values = "unit", size: tuple[int, int] | None = None, progress: Progress = silent
) -> Data:
    """Return a set as `Data`; `source` is what follows "hf:" above, and `size` (height, width) is for images."""
    name, config, column = _parse(source)
    with _quiet():
        splits = _load(name, config, progress)
        columns = _choose(splits["train"].features, column, name)
        whole, fingerprints = _joined(splits, columns)
        key = hashlib.sha256(repr((_VERSION, fingerprints, columns, size)).encode()).hexdigest()[:24]
        feature = whole.features[columns[0]]
        if _is(feature, "Image"):
            array, where = _images(whole, columns[0], f"hub-{key}", size, name, progress)
            data = Data(name, ArrayExamples(array, 1 / 255), "unit")
        elif size:
            problem = f"hf:{name}::{columns[0]} holds numbers, not images"
            raise OptionError(problem, f"leave out {setting('image_size')}", "choose a column of images")
        else:
            array, where = _numbers(whole, columns, f"hub-{key}.npy", name, progress)
            data = from_array(array, "any" if _nesting(feature) == 0 else values, f"hf:{name}")
        train = len(splits["train"])
        return dataclasses.replace(
            data,
            name=name.rstrip("/").rpartition("/")[2],
            test=np.arange(train, len(whole)) if len(whole) > train else None,
            note=f"{train:,} train and {len(whole) - train:,} test examples of hf:{name}, {where}",
            factors=_labels(whole),
            columns=tuple(columns) if _nesting(feature) == 0 else (),
        )


def _parse(source: str) -> tuple[str, str | None, str]:
    """Split NAME[@CONFIG][::COLUMN]; the name of a folder may contain an @."""
    whole, _, column = source.partition("::")
    if os.path.isdir(folder := os.path.expanduser(whole)):
        for root, _, names in os.walk(folder):
            for name in names:
                check_regular(os.path.join(root, name))  # the library would wait for a named pipe
        return folder, None, column
    if whole.startswith((".", "/", "~")) and not os.path.isdir(os.path.expanduser(whole.rpartition("@")[0])):
        raise NarrowsError(f"hf:{source}: the folder {whole} does not exist; use a folder, or the name of a set")
    name, config = whole.rsplit("@", 1) if "@" in whole else (whole, "")
    if not name:
        raise NarrowsError(f"hf:{source} has no name; write hf:NAME, hf:NAME@CONFIG or hf:NAME@CONFIG::COLUMN")
    return os.path.expanduser(name), config or None, column


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's bars, warnings and log lines off the terminal; its errors are exceptions."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        try:
            import datasets
            from huggingface_hub import utils
        except ImportError:
            raise NarrowsError("reading hf: sets needs datasets: pip install 'narrows[hub]'") from None
        for logger in map(logging.getLogger, ("datasets", "huggingface_hub")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        for library in (datasets, utils):
            if not library.are_progress_bars_disabled():
                stack.callback(library.enable_progress_bars)
                library.disable_progress_bars()
        yield


def _load(name: str, config: str | None, progress: Progress) -> Any:
    import datasets

    progress(f"loading hf:{name}", 0, 0)
    try:
        splits = datasets.load_dataset(name, config, trust_remote_code=False)
    except Exception as error:  # the library and its dependencies can raise anything
        raise _refused(name, error) from None
    if "train" not in splits:
        raise NarrowsError(f"hf:{name} has no split 'train', only {', '.join(splits)}; choose another set")
    return splits


def _refused(name: str, error: Exception) -> NarrowsError:
    cause = error.__cause__ or error
    reason = " ".join(str(cause).split())[:300] or type(cause).__name__
    if "gated" in reason.lower():
        advice = "accept its terms on its page and log in with `hf auth login`"
    elif "config" in reason.lower():
        advice = f"choose one with hf:{name}@CONFIG"
    elif isinstance(error, ConnectionError):
        advice = "check the network; only sets that were loaded before are available without one"
    else:
        advice = "check the name, or use a folder of Parquet, CSV or image files"
    return NarrowsError(f"hf:{name} cannot be loaded ({reason}); {advice}")


def _choose(features: Any, wanted: str, name: str) -> list[str]:
    """Return the column that holds the examples, or all columns of a table, by the rules above."""
    listed = ", ".join(f"{column} {_kind(feature)}" for column, feature in features.items())
    if wanted:
        if wanted not in features:
            raise NarrowsError(f"hf:{name} has no column {wanted!r}; its columns are {listed}")
        if not _is(features[wanted], "Image") and _nesting(features[wanted]) is None:
            raise NarrowsError(
                f"hf:{name}::{wanted} holds {_kind(features[wanted])}, neither images nor numbers; "
                f"choose another of its columns: {listed}"
            )
        return [wanted]
    images = [column for column, feature in features.items() if _is(feature, "Image")]
    if len(images) == 1:
        return images
    for usual in _USUAL_COLUMNS:
        if usual in features and (_is(features[usual], "Image") or _nesting(features[usual])):
            return [usual]
    numbers = [column for column, feature in features.items() if not _is(feature, "ClassLabel")]
    if numbers and all(_nesting(features[column]) == 0 for column in numbers):
        return numbers
    raise NarrowsError(
        f"hf:{name}: several columns could hold the examples; choose one with hf:{name}::COLUMN: {listed}"
    )


def _is(feature: Any, kind: str) -> bool:
    """Return whether a column is of this class of `datasets`."""
    import datasets

    return isinstance(feature, getattr(datasets, kind))


def _nesting(feature: Any) -> int | None:
    """Return how deep the numbers of a column are nested in lists, 0 for plain ones; None if it holds no numbers."""
    import datasets
    import pyarrow as pa

    if not _is(feature, "Value") and not hasattr(feature, "feature") and not hasattr(feature, "shape"):
        return None
    kind = datasets.Features({"column": feature}).arrow_schema.field("column").type
    depth = 0
    while True:
        if isinstance(kind, pa.ExtensionType):
            kind = kind.storage_type
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
            depth += 1
        else:
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
            return depth if number else None


def _kind(feature: Any) -> str:
    """Return a short name of a column's type for the user."""
    if _is(feature, "Value"):
        return f"({feature.dtype})"
    element = getattr(feature, "feature", None)
    return f"({type(feature).__name__}{' of ' + _kind(element)[1:-1] if element is not None else ''})"


def _joined(splits: Any, columns: list[str]) -> tuple[Any, list[str]]:
    """Return train and test as one set with the chosen columns and the labels, and the fingerprints of both."""
    import datasets

    kept = columns + [column for column, feature in splits["train"].features.items() if _is(feature, "ClassLabel")]
    parts = [splits[split] for split in ("train", "test") if split in splits]
    whole = datasets.concatenate_datasets([part.select_columns(kept) for part in parts])
    return whole.with_format("arrow"), [part._fingerprint for part in parts]


def _images(
    whole: Any, column: str, file_name: str, size: tuple[int, int] | None, name: str, progress: Progress
) -> tuple[np.ndarray, str]:
    folders = _folders(name)
    with contextlib.ExitStack() as stack:

        @functools.cache
        def archive(path: str) -> zipfile.ZipFile:
            return stack.enter_context(zipfile.ZipFile(path))

        def opened(row: dict[str, Any] | None) -> Any:
            if not row or row["bytes"] is not None or not row["path"]:
                return io.BytesIO(row["bytes"] or b"" if row else b"")
            member, _, outer = row["path"].removeprefix("zip://").partition("::")
            real = os.path.realpath(outer or row["path"])
            if not any(os.path.commonpath([folder, real]) == folder for folder in folders):
                raise NarrowsError(
                    f"hf:{name}::{column} names the file {real}, which is not a part of the set and could be any "
                    "picture of yours; use a set that holds its images"
                )
            if not outer:
                return row["path"]
            try:  # the library itself would read the archive's whole table of contents again for every image
                return io.BytesIO(archive(outer).read(member))
            except Exception as error:
                raise NarrowsError(f"hf:{name}: {outer} is damaged ({error}); fetch it again") from None

        pictures = Pictures(
            f"hf:{name}::{column}",
            len(whole),
            read=lambda numbers: list(map(opened, whole[numbers.start : numbers.stop].column(column).to_pylist())),
            name=lambda i: f"hf:{name}::{column}, row {i},",
            remedy="choose another column or set",
            formats=_FORMATS,
        )
        array, _, where = cached_pictures(pictures, file_name, size, False, progress)
    return array, where


def _folders(name: str) -> list[str]:
    """Return the folders that hold a set's files: its own, if it is one, and the caches of the library."""
    from datasets import config
    from huggingface_hub.constants import HF_HUB_CACHE

    caches = [str(config.HF_DATASETS_CACHE), str(config.DOWNLOADED_DATASETS_PATH), HF_HUB_CACHE]
    return [os.path.realpath(folder) for folder in ([name] if os.path.isdir(name) else []) + caches]


def _numbers(whole: Any, columns: list[str], file_name: str, name: str, progress: Progress) -> tuple[np.ndarray, str]:
    """Return a column of lists or arrays, or a table's columns of numbers, as an array of one row per example."""
    first = _chunk(whole, columns, slice(1), name)
    step = max(1, CHUNK_BYTES // max(1, first.nbytes))

    def chunks() -> Iterator[np.ndarray]:
        for part in steps(len(whole), step, f"converting hf:{name}", progress):
            chunk = _chunk(whole, columns, part, name)
            if chunk.shape[1:] != first.shape[1:]:
                raise _ragged(columns[0], part.start, name)
            yield chunk.astype(first.dtype, copy=False)

    return cached_array(file_name, first.shape[1:], first.dtype, chunks, len(whole), f"hf:{name}")


def _chunk(whole: Any, columns: list[str], part: slice, name: str) -> np.ndarray:
    table = whole[part]
    made = [_unnested(table.column(column).combine_chunks(), column, part.start or 0, name) for column in columns]
    if made[0].ndim == 1:
        return np.stack(made, axis=1, dtype=np.result_type(*made, np.float32), casting="unsafe")
    (rows,) = made
    return rows if rows.dtype in (np.uint8, np.bool_) else rows.astype(np.result_type(rows, np.float32), copy=False)


def _unnested(array: Any, column: str, start: int, name: str) -> np.ndarray:
    """Return (nested) lists of numbers of one length as an array, level by level and without a loop over rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = len(array)
    shape = [rows]
    while True:
        if array.null_count:
            raise NarrowsError(
                f"hf:{name}::{column}: values are missing, first in rows {start} to {start + rows - 1}; "
                "choose another column"
            )
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif hasattr(array, "flatten") and pa.types.is_nested(array.type):
            lengths = pc.list_value_length(array).to_numpy()
            others = np.flatnonzero(lengths != lengths[0])
            if others.size:
                raise _ragged(column, start + int(others[0]) * rows // len(array), name)
            shape.append(int(lengths[0]))
            array = array.flatten()
        else:
            return array.to_numpy(zero_copy_only=False).reshape(shape)


def _ragged(column: str, row: int, name: str) -> NarrowsError:
    return NarrowsError(
        f"hf:{name}::{column}: row {row} has another length than the rows before it; choose a column of one shape"
    )


def _labels(whole: Any) -> Factors | None:
    """Return the class labels as factors, without columns in which labels are missing."""
    factors, labels = [], []
    for column, feature in whole.features.items():
        if not _is(feature, "ClassLabel"):
            continue
        index = whole.select_columns([column])[:].column(column).to_numpy()
        if np.isin(index, np.arange(feature.num_classes)).all():
            factors.append(kinds(column, feature.names))
            labels.append(index)
    return Factors(tuple(factors), np.stack(labels, axis=1).astype(np.int64)) if factors else None
