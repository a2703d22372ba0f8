"""One job: train what is not trained yet, and return the rows.

Every training is an ordinary run in its own folder, so a job that was killed continues where it was, bit for bit.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.files import atomic_file
from narrows.data import find_set, split
from narrows.data.load import read
from narrows.model.storage import load_model
from narrows.paper.plan import Job, Row
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder
from narrows.runs.records import MetricRow, Result
from narrows.training.front import train_front
from narrows.training.listeners import Listener
from narrows.training.start import train

SHOWN = "shown.npy"
"""Test images and their reconstructions, (2, count, height, width, channels) bytes, beside the model."""
DIGIT = 7
"""The digit of which the paper shows reconstructions."""


class DataMissing(NarrowsError):
    """The data of a job are not on this machine."""


def run_job(job: Job, out: Path, listener: Listener) -> list[Row]:
    """Train one job in `out`, from wherever it stopped, and return its rows."""
    chosen = find_set(job.config.data)
    if not chosen.is_cached and chosen.draw is None:
        raise DataMissing(f"{chosen.name} is not cached and cannot be drawn; fetch it: narrows data get {chosen.name}")
    if job.taus:
        front = FrontFolder(out / job.key)
        results = train_front(job.config, job.taus, front.path, listener=listener, resume=True).results
        return [_row(job, result, front.level(result.tau or 0.0), out) for result in results]
    folder, config, baseline_steps = RunFolder(out / job.key), job.config, None
    if job.baseline is not None:
        plain = RunFolder(out / f"{job.key}-plain")
        baseline_steps = train(job.baseline, plain.path, listener=listener, resume=True).result.steps
        config = replace(config, tau=plain.read_rows()[-1].error)
    result = train(config, folder.path, listener=listener, resume=True).result
    if config.as_good_as is not None:
        reference = RunFolder(folder.plain).read_result()
        baseline_steps = 0 if reference is None else reference.steps
    return [replace(_row(job, result, folder, out), baseline_steps=baseline_steps)]


def _row(job: Job, result: Result, folder: RunFolder, out: Path) -> Row:
    """Return the row of a run that has ended, and write the images that are to be shown."""
    if job.shown and not (folder.path / SHOWN).exists():
        _write_images(job, folder)
    held, metrics = result.heldout, folder.read_rows()
    return replace(
        job.row("done", tau=result.tau),
        dims=result.dims,
        met=result.met,
        error=held.error,
        high=held.high,
        marks=job.marks,
        open=tuple(open_after(metrics, mark, result.n) for mark in job.marks),
        steps=result.steps,
        seconds=result.seconds,
        run=str(folder.path.relative_to(out)),
    )


def open_after(rows: list[MetricRow], step: int, n: int) -> int:
    """Return how many of n gates were open after `step` batches, by the last row of metrics up to there."""
    return next((row.open for row in reversed(rows) if row.step <= step), n)


def _write_images(job: Job, folder: RunFolder) -> None:
    """Write test images and their reconstructions, decoding the mean."""
    data = read(job.config.data, job.config.reading())
    index = split(data, job.config.split_seed).test
    if job.config.data == "mnist":
        assert data.factors is not None
        index = index[data.factors.of(index)[:, 0] == DIGIT]
    x = data.examples.batch(index[np.linspace(0, len(index) - 1, job.shown).astype(int)])
    pair = np.stack([x.numpy(), load_model(folder.model).reconstruct(x).detach().numpy()])
    with atomic_file(folder.path / SHOWN) as file:
        np.save(file, (255 * pair.clip(0, 1)).round().astype(np.uint8).transpose(0, 1, 3, 4, 2))
