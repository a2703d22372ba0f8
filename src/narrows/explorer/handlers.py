"""What the page may ask for: one function a question, a dictionary in, a dictionary out.

model      a model's sliders, its answer and its mean error
input      an input's picture and code, and the error of its reconstruction
decode     a code's picture, without the dimensions that are off, beside an input if one is chosen
check      the mean error of test inputs without the dimensions that are off
between    of images, a strip of what lies on the straight line between two inputs' codes

Images come as PNG in data URIs, vectors as numbers. Whatever is wrong with a question is a NarrowsError, in words that
can stand on the page.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows.errors import NarrowsError
from narrows.explorer.models import Explored, Explorer
from narrows.report import sheets, words
from narrows.report.evidence import POSITIONS
from narrows.using import layout

FULL = 0.5
"""The difference, as a share of the range from black to white, at which its colour is full."""
LARGEST_CODE = 1e6
Answer = dict[str, Any]


def model(explorer: Explorer, question: Answer) -> Answer:
    """Return what a model's sliders are."""
    chosen = explorer.model(question.get("model"))
    low, high, start = chosen.ranges
    result = chosen.result
    costs = [None] * chosen.n if result is None else [_number(one.cost) for one in result.dimensions]
    gates = chosen.trained.model.kept
    sliders = [
        {"gate": gates[j], "cost": costs[j], "low": float(low[j]), "high": float(high[j]), "start": float(start[j])}
        for j in range(chosen.n)
    ]
    headline = words.plural(chosen.n, "dimension") if result is None else words.headline(result).split(": ")[0]
    return {
        "sliders": sliders,
        "headline": headline[0].upper() + headline[1:],
        "tau": chosen.tau,
        "mean": _number(chosen.mean_error()),
        "checked": chosen.checked,
    }


def input_(explorer: Explorer, question: Answer) -> Answer:
    """Return one input and its code."""
    chosen, x = explorer.model(question.get("model")), explorer.inputs.get(question.get("input"))
    code = chosen.encode(x)
    error = float(chosen.error(x, chosen.decode(code))[0])
    return {"code": code[0].tolist(), "error": _number(error), **_shown(explorer, x)}


def decode(explorer: Explorer, question: Answer) -> Answer:
    """Return what a code stands for, and how far it is from the input."""
    chosen = explorer.model(question.get("model"))
    decoded = chosen.decode(_code(question, chosen), _off(question, chosen))
    answer = _shown(explorer, decoded)
    if question.get("input") is not None:
        x = explorer.inputs.get(question["input"])
        answer["error"] = _number(float(chosen.error(x, decoded)[0]))
        if explorer.inputs.is_image:
            low, high = explorer.inputs.levels
            apart = sheets.differences(layout(x), layout(decoded), FULL * (high - low))
            answer["difference"] = sheets.grid([apart], max(explorer.inputs.shape[1:]))
    return answer


def check(explorer: Explorer, question: Answer) -> Answer:
    """Return the mean error of test inputs without some dimensions."""
    chosen = explorer.model(question.get("model"))
    return {"mean": _number(chosen.mean_error(_off(question, chosen)))}


def between(explorer: Explorer, question: Answer) -> Answer:
    """Return a strip of what lies between two inputs."""
    chosen, names = explorer.model(question.get("model")), question.get("inputs")
    if not isinstance(names, list) or len(names) != 2:
        raise NarrowsError("choose two inputs to go from one to the other")
    if not explorer.inputs.is_image:
        raise NarrowsError("this run is about vectors, not about images: there is no strip")
    first, last = (chosen.encode(explorer.inputs.get(name)) for name in names)
    way = torch.linspace(0, 1, POSITIONS)[:, None]
    decoded = chosen.decode((1 - way) * first + way * last, _off(question, chosen))
    return {"strip": _picture(explorer, decoded)}


QUESTIONS: dict[str, Callable[[Explorer, Answer], Answer]] = {
    "model": model,
    "input": input_,
    "decode": decode,
    "check": check,
    "between": between,
}


def _shown(explorer: Explorer, x: Tensor) -> Answer:
    """Return one example as the page shows it."""
    if explorer.inputs.is_image:
        return {"picture": _picture(explorer, x)}
    return {"values": [_number(value) for value in x[0].tolist()]}


def _picture(explorer: Explorer, x: Tensor) -> str:
    low, high = explorer.inputs.levels
    return sheets.grid([sheets.as_bytes(layout(x), low, high)], max(explorer.inputs.shape[1:]))


def _code(question: Answer, chosen: Explored) -> Tensor:
    code = question.get("code")
    if not isinstance(code, list) or len(code) != chosen.n:
        raise NarrowsError(f"a code of this model has {chosen.n} numbers; load the page again")
    if not all(type(one) in (int, float) and abs(one) <= LARGEST_CODE for one in code):  # also refuses nan
        raise NarrowsError(f"codes are numbers of at most {LARGEST_CODE:g}; move the sliders back")
    return torch.from_numpy(np.array([code], dtype=np.float32).reshape(1, chosen.n))


def _off(question: Answer, chosen: Explored) -> tuple[int, ...]:
    off = question.get("off", [])
    if not isinstance(off, list) or not all(type(one) is int and 0 <= one < chosen.n for one in off):
        raise NarrowsError(f"dimensions that are off are numbers below {chosen.n}; load the page again")
    return tuple(off)


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
