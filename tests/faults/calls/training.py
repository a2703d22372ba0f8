"""Data, settings and runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, TensorDataset

import narrows
from faults.calls.frame import HUGE, INF, NAN, NOT_FLAGS, NOT_PATHS, PATH, Case, Good, each, one
from narrows import (
    Data,
    TrainConfig,
)

FRAME = pd.DataFrame({"a": np.arange(20.0)})


def data(good: Good) -> Data:
    """Return good data."""
    return narrows.from_array(good.x)


DATA = [
    *each(
        "from_array",
        "array: a .* is not an array; pass a numpy array",
        lambda g, v: narrows.from_array(v),
        (None, "my.npy", 3, [[0.5]], {}, np.matrix, (0.1, 0.2)),
        named=False,
    ),
    *each(
        "from_array(dtype)",
        "array: dtype .* is not accepted",
        lambda g, v: narrows.from_array(v),
        (np.zeros((5, 2), int), np.zeros((5, 2), complex), np.full((5, 2), "a"), torch.zeros(5, 2).bfloat16()),
        named=False,
    ),
    *each(
        "from_array(shape)",
        "array: .*shape",
        lambda g, v: narrows.from_array(np.zeros(v)),
        ((), (5,), (0, 2), (5, 0), (5, 2, 2, 7), (5, 1, 2, 3, 4)),
    ),
    *each(
        "from_table",
        "table must be a data frame of pandas or polars, or a table of pyarrow",
        lambda g, v: narrows.from_table(v),
        (None, 3, "t.csv", np.zeros((5, 2)), {"a": [1]}),
    ),
    *each("from_table(name)", "name must be a text", lambda g, v: narrows.from_table(FRAME, name=v), (None, 3)),
    *each("from_table(missing)", "missing must be one of", lambda g, v: narrows.from_table(FRAME, missing=v), ("x", 3)),
    *each(
        "from_table(categories)",
        "categories must be one of refuse, auto",
        lambda g, v: narrows.from_table(FRAME, categories=v),
        ("x", None),
    ),
    *each("from_table(columns)", "columns ", lambda g, v: narrows.from_table(FRAME, columns=v), (3, [4])),
    *one("from_table", "table has no column 'b'", lambda g: narrows.from_table(FRAME, columns=["b"])),
    *one("from_table", "table: column 'a' holds text", lambda g: narrows.from_table(pd.DataFrame({"a": list("xyxy")}))),
    *one("from_table", "weights must have one number per row", lambda g: narrows.from_table(FRAME, weights=[1])),
    *one("from_table", "groups must have one entry per row", lambda g: narrows.from_table(FRAME, groups=[1])),
    *each(
        "from_array(missing)", "missing must be one of", lambda g, v: narrows.from_array(g.x, missing=v), ("x", None)
    ),
    *one("from_array", "weights must have one number per row", lambda g: narrows.from_array(g.x, weights=[1])),
    *one("from_array", "groups must have one entry per row", lambda g: narrows.from_array(g.x, groups=[1])),
    *one("from_array", "array: 10 of 10 values are NaN", lambda g: narrows.from_array(np.full((5, 2), NAN))),
    *one(
        "from_array",
        "array: 10 of 10 values are NaN or infinite",
        lambda g: narrows.from_array(np.full((5, 2), INF), "any"),
    ),
    *one("from_array", r"array: .*\[0, 1\]", lambda g: narrows.from_array(np.full((5, 2), 7.0))),
    *one("from_array", r"array: .*1e\+300", lambda g: narrows.from_array(np.full((5, 2), 1e300), "any")),
    *each(
        "from_array(values)",
        "array: values must be unit or any",
        lambda g, v: narrows.from_array(g.x, v),
        (None, "Unit", 1, []),
    ),
    *each(
        "from_array(name)", "name must be a text", lambda g, v: narrows.from_array(g.x, name=v), (None, 3, Path("x"))
    ),
    *each(
        "from_dataset",
        "dataset: a .* is not a dataset",
        lambda g, v: narrows.from_dataset(v),
        (None, 3, object(), len),
        named=False,
    ),
    *one("from_dataset", "dataset: a DataLoader gives batches", lambda g: narrows.from_dataset(DataLoader([1]))),
    *one("from_dataset", "dataset: the dataset is empty", lambda g: narrows.from_dataset([])),
    *one("from_dataset", "dataset: item 0 leads to a str", lambda g: narrows.from_dataset(["a", "b"])),
    *one("from_dataset", "dataset: item 1 has shape", lambda g: narrows.from_dataset([g.x[0], g.x[0, :2]])),
    *one("from_dataset", "dataset: dtype", lambda g: narrows.from_dataset(TensorDataset(torch.zeros(5, 2, dtype=int)))),
    *each("load(data)", f"data {PATH}", lambda g, v: narrows.load(v), (None, 5, ["x"], b"x", {})),
    *each("load(data)", "no such file, folder or set", lambda g, v: narrows.load(v), ("nowhere.npy", "dsprite", "")),
    *one("load(data)", ".*text.txt: files of this kind are not read", lambda g: narrows.load(g.text)),
    *one("load(data)", ".*", lambda g: narrows.load(g.folder / "empty")),
    *each("load(values)", "values must be one of unit, any", lambda g, v: narrows.load("mnist", v), (None, "Unit", 3)),
    *each(
        "load(source)",
        "source must be auto, drawn or official",
        lambda g, v: narrows.load("dsprites", source=v),
        (None, "web", 3),
    ),
    *each(
        "load(image_size)",
        "image_size must be 64, or 48x64",
        lambda g, v: narrows.load(g.folder, image_size=v),
        ("big", -1, 2.5, (1,), (1, 2, 3), [], NAN),
    ),
    *one("load(image_size)", "image_size must have sides", lambda g: narrows.load(g.folder, image_size=HUGE)),
    *each(
        "load(skip_broken)",
        "skip_broken must be true or false",
        lambda g, v: narrows.load(g.folder, skip_broken=v),
        NOT_FLAGS,
    ),
    *each(
        "load(columns)",
        "columns must be names of columns",
        lambda g, v: narrows.load(g.folder, columns=v),
        (5, [1], {}, {1}),
    ),
    *one("load(columns)", "columns is for tables", lambda g: narrows.load(g.folder, columns="a,b")),
    *each("load(stream)", "stream must be true or false", lambda g, v: narrows.load(g.folder, stream=v), NOT_FLAGS),
    *one("load(stream)", "stream is for shards", lambda g: narrows.load("mnist", stream=True)),
    *each(
        "load(split_by)",
        "split_by must be one of row, shard",
        lambda g, v: narrows.load("s3://bucket/*.npy", split_by=v),
        (None, "plate", 3),
    ),
    *each(
        "load(cache_size)",
        "cache_size must be a size such as 2GB",
        lambda g, v: narrows.load("s3://bucket/*.npy", cache_size=v),
        (None, "much", -1, 0, NAN, []),
    ),
    *one("load(data)", "no shards match", lambda g: narrows.load("nowhere/part-*.npy")),
    *one("load(data)", ".*would be stored with the run", lambda g: narrows.load("https://h.example/a.npy?key=1")),
    *each("load(progress)", "progress must be a function", lambda g, v: narrows.load("mnist", progress=v), (None, 3)),
    *each(
        "Data(examples)",
        "examples must be an object that serves",
        lambda g, v: Data("x", v, "unit"),
        (None, 3, [1], np.zeros((3, 2))),
    ),
    *each(
        "Data(values)", "values must be one of unit, any", lambda g, v: Data("x", data(g).examples, v), (None, "x", 1)
    ),
    *each("Data(name)", "name must be a text", lambda g, v: Data(v, data(g).examples, "unit"), (None, 3)),
]


def settings(name: str, says: str, values: Iterable[Any]) -> list[Case]:
    """Return a case of `train` per value of a setting."""

    def call(good: Good, value: Any) -> object:
        return narrows.train(TrainConfig(**{"tau": None, "explained": None, name: value}), data=good.x)

    return each(f"TrainConfig({name})", f"{name} must be {says}", call, values)


CONFIG = r"config must be a TrainConfig, such as TrainConfig\(data='my.npy', explained=0.95\)"
TRAINING = [
    *each("train(config)", CONFIG, lambda g, v: narrows.train(v), (None, {}, {"tau": 1}, "my.npy", TrainConfig, 3)),
    *each("train(out)", f"out {PATH}", lambda g, v: narrows.train(TrainConfig(tau=1.0), v, g.x), NOT_PATHS[1:]),
    *each(
        "train(listener)",
        "listener must be",
        lambda g, v: narrows.train(TrainConfig(tau=1.0), None, g.x, v),
        ("x", 3, print),
    ),
    *each(
        "train(resume)",
        "resume must be true or false",
        lambda g, v: narrows.train(TrainConfig(tau=1.0), g.run, g.x, resume=v),
        NOT_FLAGS,
    ),
    *one("train(resume)", "resume continues .*; give out", lambda g: narrows.train(TrainConfig(tau=1.0), resume=True)),
    *one(
        "train(resume)",
        ".* was started with other settings: .*batch was .* and is 9",
        lambda g: narrows.train(TrainConfig(tau=1.0, batch=9), g.run, g.x, resume=True),
    ),
    *one(
        "train(out)",
        "the folder .* exists and is not empty",
        lambda g: narrows.train(TrainConfig(tau=1.0, batch=8), g.folder, g.x),
    ),
    *one("train(out)", "cannot create the folder", lambda g: narrows.train(TrainConfig(tau=1.0, batch=8), g.text, g.x)),
    *each(
        "train(data)",
        "array: a .* is not an array",
        lambda g, v: narrows.train(TrainConfig(tau=1.0), data=v),
        ("my.npy", 3, [[0.5]], {}, object()),
        named=False,
    ),
    *one("train(data)", "no such file", lambda g: narrows.train(TrainConfig("nowhere.npy", tau=1.0))),
    *settings("tau", "a number", (NAN, INF, 0, -1, HUGE, "1", True, [1.0])),
    *settings("tau_per_value", "a number", (NAN, 0, "x")),
    *settings("explained", ".*", (0, 1, 95, NAN, "most", True, HUGE)),
    *settings("n", ".*", (0, -1, 2.5, "many", None, True, [4])),
    *settings("steps", ".*", (0, -1, 2.5, "x", None)),
    *settings("batch", ".*", (0, -1, 2.5, None, "64", True)),
    *settings("width", ".*", (0, -1, None, "32")),
    *settings("recipe", "one of fast, paper, plain", (None, "slow", 3, [])),
    *settings("effort", "one of quick, normal, thorough", (None, "max", 3)),
    *settings("network", "one of auto, conv, mlp", (None, "cnn", 3)),
    *settings("error", "one of squared, cross-entropy, absolute", (None, "mse", 3)),
    *settings("confidence", ".*", (0, 1, 95, NAN, None, "high")),
    *settings("aim", ".*", (0, 2, NAN, "x")),
    *settings("learning_rate", ".*", (0, -1, NAN, INF, None, "fast")),
    *settings("seed", ".*", (-1, 2**63, 0.5, None, "x")),
    *settings("split_seed", ".*", (-1, 2**63, None)),
    *settings("device", "one of auto, cpu, cuda, mps", (None, "tpu", 0)),
    *settings("threads", ".*", (0, -1, 2.5, "x")),
    *settings("checkpoint_every", ".*", (0, -1, 2.5, None, True, "x", "5x", [])),
    *settings("values", "one of unit, any", (None, "Any", 1)),
    *settings("data", "text", (None, 3, [])),
    *settings("skip_broken", "true or false", (None, "yes", 1)),
    *settings("compile", "true or false", (None, "yes", 1)),
    *settings("stream", "true or false", (None, "yes", 1)),
    *settings("split_by", "one of row, shard", (None, "plate", 1)),
    *settings("cache_size", "text", (None, [], 2.5)),
    *one(
        "train",
        "give only one of tau, explained",
        lambda g: narrows.train(TrainConfig(tau=1.0, explained=0.9), data=g.x),
    ),
    *one(
        "train(data)",
        "the data are named twice, as data='my.npy' and by what was passed; leave one out",
        lambda g: narrows.train(TrainConfig(data="my.npy", tau=1.0), data=g.x),
    ),
    *one(
        "train_front(data)",
        "the data are named twice, as data='my.npy' and by what was passed; leave one out",
        lambda g: narrows.train_front(TrainConfig(data="my.npy"), [1.0], data=g.x),
    ),
    *each("resume(out)", f"out {PATH}", lambda g, v: narrows.resume(v), NOT_PATHS),
    *one("resume(out)", "nowhere is not a run folder", lambda g: narrows.resume("nowhere")),
    *one("resume(out)", ".*is not a run folder", lambda g: narrows.resume(g.text)),
    *one("resume(out)", ".*is not a run folder", lambda g: narrows.resume(g.folder)),
    *each("resume(steps)", "steps must be", lambda g, v: narrows.resume(g.run, v, g.x), (0, -1, 2.5, "x", True, NAN)),
    *each("resume(listener)", "listener must be", lambda g, v: narrows.resume(g.run, listener=v), ("x", 3)),
    *one("resume(data)", "this run was trained on an array in memory", lambda g: narrows.resume(g.run, 9)),
    *one("resume(data)", "array: a str is not an array", lambda g: narrows.resume(g.run, 9, "x")),
    *each("train_front(config)", CONFIG, lambda g, v: narrows.train_front(v, [1.0]), (None, {}, "my.npy")),
    *each(
        "train_front(taus)",
        "taus must be numbers",
        lambda g, v: narrows.train_front(TrainConfig(), v, data=g.x),
        (None, 3.0, "3,4", ["a"], [HUGE], [None], [[1.0]], object),
    ),
    *each(
        "train_front(taus)",
        "taus must be numbers ab",
        lambda g, v: narrows.train_front(TrainConfig(), v, data=g.x),
        ([], [-1.0], [NAN]),
    ),
    *one("train_front(taus)", "taus has 3 more", lambda g: narrows.train_front(TrainConfig(), [3, 3], data=g.x)),
    *each(
        "train_front(out)", f"out {PATH}", lambda g, v: narrows.train_front(TrainConfig(), [1.0], v, g.x), NOT_PATHS[1:]
    ),
    *one(
        "train_front(resume)",
        ".*holds a single run, not a front",
        lambda g: narrows.train_front(TrainConfig(), [1.0], g.run, g.x, resume=True),
    ),
    *each("resume_front(out)", f"out {PATH}", lambda g, v: narrows.resume_front(v), NOT_PATHS),
    *one("resume_front(out)", ".*is not a front", lambda g: narrows.resume_front(g.run)),
]
