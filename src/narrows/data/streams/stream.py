"""`load_stream`: shards that are larger than the disk, or lie elsewhere, as `Data`.

Training takes the shards window by window (windows.py) through a cache of a fixed size (shard_cache.py). Everything
else needs random access: validation, test, certificate, report. So these rows are copied to the local disk once,
together with an evenly spaced sample of the training rows, on which the data are measured: at most 20,000 rows and
512 MB. `Stream.split` does that, because which rows they are depends on the seed of the split. Any other row can be
read too, through the same cache; reading all rows in order touches every shard once.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows._util.progress import Progress, silent
from narrows._util.room import amount, check_disk
from narrows.data.cache import cache_folder, cached_array
from narrows.data.dataset import Data, Values
from narrows.data.examples import ArrayExamples, release
from narrows.data.options import SplitBy
from narrows.data.readers.shards import check_alike
from narrows.data.rows import JoinedRows
from narrows.data.splits import Splits
from narrows.data.streams.addresses import THREADS, find_files
from narrows.data.streams.shard_cache import ShardCache, remove_unused, room_error
from narrows.data.streams.shards import RUN, Shard, check_values, open_shard
from narrows.data.streams.split import HashSplit
from narrows.data.streams.transfer import File, shown
from narrows.data.streams.windows import WindowedRows

SAMPLE_ROWS, SAMPLE_BYTES = 20_000, 512 << 20
"""Limits of the sample of training rows that is kept at hand."""
PROBED = 16
"""Shards whose first rows tell whether bytes are 0 and 1 only, or 0 to 255."""
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def load_stream(
    text: str,
    values: Values = "unit",
    columns: Sequence[str] | None = None,
    size: tuple[int, int] | None = None,
    split_by: SplitBy = "row",
    cache_bytes: int = 8 * 10**9,
    progress: Progress = silent,
) -> Data:
    """Return the shards at an address or a path as `Data` that is read while it is used.

    Arguments:
        text: The address with a pattern or range, see addresses.py.
        values: As for `load`.
        columns: Parquet files: the columns to take; by default all, or the only column of images.
        size: Columns of images: scale and crop each to (height, width).
        split_by: Whether rows or whole shards are held out.
        cache_bytes: What the shards on the local disk may take.
        progress: Called while headers and held-out rows are read.

    Raises:
        NarrowsError: The shards cannot be found or read, or do not belong together.
    """
    files = find_files(text, progress)
    shards = _opened(files, columns, size, progress)
    stream = Stream(text, shards, values, split_by, cache_bytes, progress)
    return Data(
        name=stream.name,
        examples=ArrayExamples(stream.rows, stream.scale),
        values="any" if shards[0].columns else values if shards[0].dtype.kind == "f" else "unit",
        note=f"streamed from {shown(text)}, {len(shards):,} shards of {amount(stream.stored)} in all",
        columns=shards[0].columns,
        stream=stream,
    )


def _opened(
    files: Sequence[File], columns: Sequence[str] | None, size: tuple[int, int] | None, progress: Progress
) -> list[Shard]:
    with ThreadPoolExecutor(THREADS) as pool:
        shards: list[Shard] = []
        for shard in _ahead(pool, lambda file: open_shard(file, columns, size), files):
            shards.append(shard)
            first = shards[0]
            check_alike(shown(first.file.address), first.layout, shown(shard.file.address), shard.layout)
            progress("reading the headers of shards", len(shards), len(files))
    return shards


class Stream:
    """Shards that are read while they are used: rows by index, the split, and the order of training.

    Arguments:
        text: The address as the user gave it.
        shards: All of them, in natural order.
        values: Whether floats must lie in [0, 1].
        split_by: Whether rows or whole shards are held out.
        cache_bytes: What the shards on the local disk may take.
        progress: Called while held-out rows are copied.
    """

    def __init__(
        self,
        text: str,
        shards: Sequence[Shard],
        values: Values,
        split_by: SplitBy,
        cache_bytes: int,
        progress: Progress,
    ) -> None:
        self.shards, self.split_by, self.cache_bytes, self.progress = shards, split_by, cache_bytes, progress
        self.values: Values = "any" if shards[0].columns else values
        self.name, self.names = _names([shard.file.path for shard in shards])
        self.stored = sum(shard.file.size for shard in shards)
        facts = [(name, shard.file.size, shard.count) for name, shard in zip(self.names, shards, strict=True)]
        self.digest = hashlib.sha256(repr((facts, shards[0].layout)).encode()).hexdigest()
        """Of the names, sizes and counts of all shards, and of what they have in common."""
        self.scale = self._scale()
        versions = hashlib.sha256(repr([(s.file.address, s.file.tag, s.layout) for s in shards]).encode()).hexdigest()
        self.version = f"{self.digest[:16]}{versions[:8]}"
        """Changes when a shard is replaced by another of the same size."""
        folder = cache_folder() / "streams" / self.version
        self.cache = ShardCache(shards, [f"{i:06}.npy" for i in range(len(shards))], folder, cache_bytes, self._check)
        self.rows = StreamedRows(shards, self.cache)
        self._splits: dict[int, Splits] = {}
        remove_unused(folder.parent, but=folder)

    def split(self, seed: int) -> Splits:
        """Divide the rows by a hash, and bring those that are held out and a sample of the others to the local disk."""
        if seed not in self._splits:
            self._splits = {seed: self._divided(seed)}
        return self._splits[seed]

    def _divided(self, seed: int) -> Splits:
        rule = HashSplit(self.names, [shard.count for shard in self.shards], seed, self.split_by)
        counts: list[int] = []
        validation: list[np.ndarray] = []
        test: list[np.ndarray] = []
        for number, offset in enumerate(self.rows.offsets[:-1]):
            train, *held = rule.parts(number)
            counts.append(len(train))
            for rows, found in zip(held, (validation, test), strict=True):
                found.append(rows + offset)
        splits = Splits(
            train=self._sample(rule, counts),
            validation=np.concatenate(validation),
            test=np.concatenate(test),
            rows=WindowedRows(
                offsets=self.rows.offsets,
                counts=counts,
                sizes=[shard.cached for shard in self.shards],
                room=self.cache_bytes // 2,
                training=rule.training,
                want=self.cache.want,
            ),
            rule=rule.rule,
        )
        if min(len(splits.validation), len(splits.test)) < 2 or len(splits.train) < 2:
            raise NarrowsError(
                f"{self.name}: {len(self.rows):,} rows are too few to be divided {rule.rule}; leave out "
                f"{setting('stream')}, or use more"
            )
        index = np.sort(np.concatenate([splits.train, splits.validation, splits.test]))
        self.rows.keep(index, self._copied(index, seed))
        return splits

    def _scale(self) -> float:
        """Return what a value is multiplied by: bytes count as 0 to 1, unless the first rows hold only 0 and 1."""
        if self.shards[0].dtype != np.uint8:
            return 1.0
        if not self.shards[0].by_range:  # images, decoded
            return 1 / 255
        some = self.shards[:: -(-len(self.shards) // PROBED)]
        with ThreadPoolExecutor(THREADS) as pool:
            largest = pool.map(lambda shard: shard.rows(np.arange(min(16, shard.count))).max(), some)
            return 1.0 if max(largest) <= 1 else 1 / 255

    def _check(self, rows: np.ndarray, number: int) -> None:
        check_values(rows, self.values, self.scale, shown(self.shards[number].file.address))

    def _sample(self, rule: HashSplit, counts: Sequence[int]) -> np.ndarray:
        """Return evenly spaced training rows of all shards."""
        row_bytes = self.rows.nbytes // len(self.rows)
        total, ends = sum(counts), np.cumsum(counts)
        most = min(total, SAMPLE_ROWS, max(2, SAMPLE_BYTES // row_bytes))
        places = np.linspace(0, max(total - 1, 0), most).astype(np.int64)
        owner, found = np.searchsorted(ends, places, side="right"), [np.arange(0)]
        for number in np.unique(owner):
            begin = ends[number] - counts[number]
            found.append(self.rows.offsets[number] + rule.training(int(number))[places[owner == number] - begin])
        return np.concatenate(found)

    def _copied(self, index: np.ndarray, seed: int) -> np.ndarray:
        """Return the rows at these sorted indices from the cache folder, copied there now if they are not."""
        from filelock import FileLock

        facts = (self.version, seed, self.split_by, len(index), self.shards[0].layout)
        name = f"held-{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}.npy"
        what = f"the held-out rows of {self.name}"
        needed = min(self.cache_bytes, sum(shard.cached for shard in self.shards))
        folder = cache_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_disk(needed, folder)
            with FileLock(folder / f".{name}.lock"):  # several processes of one run need the same rows
                chunks = partial(self._chunks, index)
                array, _ = cached_array(name, self.rows.shape[1:], self.rows.dtype, chunks, len(index), what)
        except OSError as error:
            raise room_error(needed, folder, error) from None
        return array

    def _chunks(self, index: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the rows at these sorted indices, some at a time, from several shards at once."""
        most = max(1, RUN * len(self.rows) // self.rows.nbytes)
        owner = np.searchsorted(self.rows.offsets, index, side="right") - 1
        tasks = []
        for number in np.unique(owner).tolist():
            rows = index[owner == number] - self.rows.offsets[number]
            step = most if self.shards[number].by_range else len(rows)
            tasks += [(number, rows[start : start + step]) for start in range(0, len(rows), step)]

        def read(task: tuple[int, np.ndarray]) -> np.ndarray:
            number, rows = task
            found = self.shards[number].rows(rows)
            self._check(found, number)
            return found

        done = 0
        with ThreadPoolExecutor(THREADS) as pool:
            for chunk in _ahead(pool, read, tasks):
                yield chunk
                done += len(chunk)
                self.progress("copying the held-out rows", done, len(index))


class StreamedRows(JoinedRows):
    """All rows of a stream by index: those at hand from their copy, the others through the cache."""

    def __init__(self, shards: Sequence[Shard], cache: ShardCache) -> None:
        first = shards[0]
        super().__init__([shard.count for shard in shards], first.row, first.dtype, cache.rows)
        self._kept = np.arange(0)
        self._copy = np.empty((0, *first.row), first.dtype)

    def keep(self, index: np.ndarray, copy: np.ndarray) -> None:
        """Serve the rows at these sorted indices from `copy` from now on."""
        self._kept, self._copy = index, copy

    def fill(self, out: np.ndarray, places: np.ndarray, index: np.ndarray) -> None:
        """Write row `index[i]` to `out[places[i]]`."""
        if len(self._kept):
            near = np.minimum(np.searchsorted(self._kept, index), len(self._kept) - 1)
            here = self._kept[near] == index
            out[places[here]] = self._copy[near[here]]
            release(self._copy)
            places, index = places[~here], index[~here]
        super().fill(out, places, index)


def _names(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of the folder that paths have in common, and their names below it."""
    split = [path.replace(os.sep, "/").split("/") for path in paths]
    alike = [len(set(names)) == 1 for names in zip(*(parts[:-1] for parts in split), strict=False)]
    depth = [*alike, False].index(False)
    return split[0][depth - 1] if depth else "stream", ["/".join(parts[depth:]) for parts in split]


def _ahead(
    pool: ThreadPoolExecutor, call: Callable[[_Task], _Result], tasks: Iterable[_Task], depth: int = 2 * THREADS
) -> Iterator[_Result]:
    """Yield the results of `call` in order, with at most `depth` of them under way or waiting in memory."""
    waiting: deque[Future[_Result]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(call, task))
            if len(waiting) == depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
