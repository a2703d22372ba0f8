"""What is done with a run: folders, reports, evaluation, samples, sharing."""

from typing import Any

import numpy as np
import torch

import narrows
from faults.calls.frame import COUNT, NAN, NOT_COUNTS, NOT_GENERATORS, NOT_PATHS, NOT_SEEDS, PATH, Good, each, one
from narrows import (
    FrontFolder,
    Pretrained,
    RunFolder,
    Sampler,
)

RUNS = [
    *each("RunFolder(path)", f"path {PATH}", lambda g, v: RunFolder(v), NOT_PATHS),
    *one("RunFolder.read_config", ".*is not a run folder", lambda g: RunFolder("nowhere").read_config()),
    *each("FrontFolder(path)", f"path {PATH}", lambda g, v: FrontFolder(v), NOT_PATHS),
    *each("FrontFolder.level", "tau must be a number", lambda g, v: FrontFolder("x").level(v), (None, "3", -1, NAN)),
    *one("FrontFolder.read_about", ".*is not a front", lambda g: FrontFolder(g.run).read_about()),
    *each("write_report(folder)", f"folder {PATH}", lambda g, v: narrows.write_report(v), NOT_PATHS),
    *one("write_report(folder)", "nowhere is not a run folder", lambda g: narrows.write_report("nowhere")),
    *each(
        "write_report(data)",
        "data must be Data",
        lambda g, v: narrows.write_report(g.run, v),
        ("x", 3, np.zeros((3, 2))),
    ),
    *each("write_report(out)", f"out {PATH}", lambda g, v: narrows.write_report(g.run, None, v), NOT_PATHS[1:]),
    *one("write_report(out)", "out must be a file, and", lambda g: narrows.write_report(g.run, None, g.folder)),
    *one(
        "write_report(out)",
        "out: the folder .* does not",
        lambda g: narrows.write_report(g.run, None, g.missing / "r.html"),
    ),
    *each("evaluate(run)", f"run {PATH}", lambda g, v: narrows.evaluate(v), NOT_PATHS),
    *one("evaluate(run)", "nowhere is not a run folder", lambda g: narrows.evaluate("nowhere")),
    *one("evaluate(run)", ".*is only a model file, but evaluation needs", lambda g: narrows.evaluate(g.file)),
    *each("evaluate(against)", f"against {PATH}", lambda g, v: narrows.evaluate(g.run, v), NOT_PATHS[1:]),
    *each(
        "evaluate(samples)",
        "samples must be a whole number from 2",
        lambda g, v: narrows.evaluate(g.run, samples=v),
        (None, "9", 1, -1, 2.5, NAN, True),
    ),
    *each(
        "evaluate(seed)", "seed must be a whole number between", lambda g, v: narrows.evaluate(g.run, seed=v), NOT_SEEDS
    ),
    *each(
        "evaluate(components)",
        f"components {COUNT}",
        lambda g, v: narrows.evaluate(g.run, components=v),
        NOT_COUNTS[1:],
    ),
    *each("evaluate(data)", "data must be Data", lambda g, v: narrows.evaluate(g.run, data=v), ("x", np.zeros((3, 2)))),
    *each("evaluate(progress)", "progress must be a func", lambda g, v: narrows.evaluate(g.run, progress=v), (None, 3)),
    *one(
        "evaluate(data)",
        ".*does not say where its data are; name the data, or give data=",
        lambda g: narrows.evaluate(g.run),
    ),
    *one(
        "evaluate(data)",
        ".*is not what .* was trained on",
        lambda g: narrows.evaluate(g.run, data=narrows.from_array(g.x[:50])),
    ),
]


def sampler(good: Good, **parts: Any) -> Sampler:
    """Return a sampler with one entry replaced."""
    return Sampler(**{**vars(good.sampler), **parts})


INFERENCE = [
    *each(
        "Sampler(kind)",
        "kind must be one of prior, gaussian, mixture",
        lambda g, v: sampler(g, kind=v),
        (None, "x", 3, []),
    ),
    *each(
        "Sampler(weights)",
        "weights must be a tensor of finite numbers",
        lambda g, v: sampler(g, weights=v),
        (None, [1.0], 1.0),
    ),
    *each(
        "Sampler(means)",
        "means must be a tensor",
        lambda g, v: sampler(g, means=v),
        (None, np.zeros((1, 4)), torch.tensor([[NAN]])),
    ),
    *each("Sampler(roots)", "roots must be a tensor", lambda g, v: sampler(g, roots=v), (None, 3, "x")),
    *one("Sampler", "weights, means and roots must be", lambda g: sampler(g, weights=torch.ones(2))),
    *one("Sampler", "weights, means and roots must be", lambda g: sampler(g, means=torch.zeros(4))),
    *one("Sampler", "weights, means and roots must be", lambda g: sampler(g, roots=torch.eye(3)[None])),
    *one("Sampler", "weights must be at least 0", lambda g: sampler(g, weights=-torch.ones(1))),
    *each("Sampler.draw(count)", f"count {COUNT}", lambda g, v: g.sampler.draw(v), NOT_COUNTS),
    *one("Sampler.draw(count)", "there is not enough memory", lambda g: g.sampler.draw(10**14)),
    *each("Sampler.draw(generator)", "generator must be a torch", lambda g, v: g.sampler.draw(2, v), NOT_GENERATORS),
    *each("Pretrained(folder)", f"folder {PATH}", lambda g, v: Pretrained(v), NOT_PATHS),
    *one("Pretrained(folder)", "cannot read the model .*: No such file", lambda g: Pretrained("nowhere")),
    *each("Pretrained.of", f"run {PATH}", lambda g, v: Pretrained.of(v), NOT_PATHS),
    *one("Pretrained.of", ".*is not a run folder", lambda g: Pretrained.of("nowhere")),
    *each(
        "from_pretrained",
        "pretrained_model_name_or_path must be a folder or the name",
        lambda g, v: Pretrained.from_pretrained(v),
        NOT_PATHS,
    ),
    *each(
        "from_pretrained",
        ".* is no folder here, and cannot be fetched from the hub: ",
        lambda g, v: Pretrained.from_pretrained(v, local_files_only=True),
        ("nowhere", "me/nowhere", "a/b/c", "-x"),
        named=False,
    ),
    *each("save_pretrained", f"save_directory {PATH}", lambda g, v: Pretrained(g.run).save_pretrained(v), NOT_PATHS),
    *one(
        "save_pretrained",
        ".*is a file; save_directory must be a folder",
        lambda g: Pretrained(g.run).save_pretrained(g.text),
    ),
]
