"""One job: train what of it is not trained yet, and return its rows.

Everything is an ordinary run in a folder of its own, so a job that was killed goes on where it was, bit for bit.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from narrows.data import find_set, load, split
from narrows.errors import NarrowsError
from narrows.experiments.plan import Job, Row
from narrows.files import atomic_file
from narrows.fronts import FrontFolder
from narrows.model import load_model
from narrows.runs import MetricRow, Result, RunFolder
from narrows.training.config import TrainConfig
from narrows.training.display import Display
from narrows.training.entry import resume, train
from narrows.training.front import resume_front, train_front

SHOWN = "shown.npy"
"""Test images and their reconstructions, (2, count, height, width, channels) bytes, beside the model."""
DIGIT = 7
"""The paper shows one of these."""


class NotHere(NarrowsError):
    """A job's data are not on this machine."""


def work(job: Job, out: Path, display: Display) -> list[Row]:
    """Do one job, from wherever it was left, in `out`."""
    chosen = find_set(job.config.data)
    if not chosen.is_cached and chosen.draw is None:
        raise NotHere(f"{chosen.name} is not cached and cannot be drawn; fetch it: narrows data get {chosen.name}")
    if job.taus:
        return _front(job, FrontFolder(out / job.key), display)
    folder, config, before = RunFolder(out / job.key), job.config, None
    if job.baseline is not None:
        before = RunFolder(out / f"{job.key}-plain")
        steps = _finish(job.baseline, before, display).steps
        config = replace(config, tau=before.read_rows()[-1].error)
    result = _finish(config, folder, display)
    if config.as_good_as is not None:
        reference = RunFolder(folder.plain).read_result()
        steps = 0 if reference is None else reference.steps
    row = _filled(job, result, folder, out)
    return [replace(row, baseline_steps=steps) if before or config.as_good_as else row]


def _finish(config: TrainConfig, folder: RunFolder, display: Display) -> Result:
    """Go on with a run, or start it; what was killed before its first checkpoint is started again."""
    if any(folder.path.rglob("*.ckpt")):
        return resume(folder.path, display=display)[0]
    shutil.rmtree(folder.path, ignore_errors=True)
    return train(config, folder.path, display=display)[0]


def _front(job: Job, folder: FrontFolder, display: Display) -> list[Row]:
    if folder.about.exists():
        results, _ = resume_front(folder.path, display=display)
    else:
        shutil.rmtree(folder.path, ignore_errors=True)
        results, _ = train_front(job.config, job.taus, folder.path, display=display)
    return [_filled(job, result, folder.level(result.tau or 0.0), folder.path.parent) for result in results]


def _filled(job: Job, result: Result, folder: RunFolder, out: Path) -> Row:
    """Return the row of a run that has ended; keep the images that are to be shown."""
    if job.shown and not (folder.path / SHOWN).exists():
        _show(job, folder)
    held = result.heldout
    return replace(
        job.row("done", tau=result.tau),
        dims=result.dims,
        met=result.met,
        error=held.error,
        low=held.low,
        high=held.high,
        marks=job.marks,
        open=tuple(open_after(folder.read_rows(), mark, result.n) for mark in job.marks),
        steps=result.steps,
        seconds=result.seconds,
        run=str(folder.path.relative_to(out)),
    )


def open_after(rows: list[MetricRow], step: int, n: int) -> int:
    """Return how many gates were open after so many batches, by the last row of metrics until then."""
    return next((row.open for row in reversed(rows) if row.step <= step), n)


def _show(job: Job, folder: RunFolder) -> None:
    """Keep test images and what the model makes of them, decoding the mean."""
    data = load(job.config.data, origin=job.config.source)
    index = split(data, job.config.split_seed).test
    if job.config.data == "mnist":
        assert data.factors is not None
        index = index[data.factors.of(index)[:, 0] == DIGIT]
    x = data.examples.batch(index[np.linspace(0, len(index) - 1, job.shown).astype(int)])
    pair = np.stack([x.numpy(), load_model(folder.model).reconstruct(x).detach().numpy()])
    with atomic_file(folder.path / SHOWN) as file:
        np.save(file, (255 * pair.clip(0, 1)).round().astype(np.uint8).transpose(0, 1, 3, 4, 2))
