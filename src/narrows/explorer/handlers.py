"""The requests that the page may send: one function per request, with a dictionary in and a dictionary out.

model      a model's sliders, its answer and its mean error
input      an input's picture and code, and the error of its reconstruction
decode     a code's picture without the dimensions that are off, and its difference from an input if one is chosen
check      the mean error of test inputs without the dimensions that are off
between    for images, a strip along the straight line between two inputs' codes

Images are sent as PNG in data URIs, vectors as numbers. A request that cannot be answered raises a NarrowsError, whose
text the page shows.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows.explorer.models import Explored, Explorer
from narrows.inference.inspect import POSITIONS
from narrows.inference.trained import layout
from narrows.report import images, text

FULL = 0.5
"""The difference, as a share of the range from black to white, at which its colour is full."""
LARGEST_CODE = 1e6
Json = dict[str, Any]


def model(explorer: Explorer, request: Json) -> Json:
    """Return a model's sliders, its headline and its mean error."""
    chosen = explorer.model(request.get("model"))
    low, high, start = chosen.ranges
    result = chosen.result
    costs = [None] * chosen.n if result is None else [_number(one.cost) for one in result.dimensions]
    gates = chosen.trained.model.kept
    sliders = [
        {"gate": gates[j], "cost": costs[j], "low": float(low[j]), "high": float(high[j]), "start": float(start[j])}
        for j in range(chosen.n)
    ]
    headline = text.plural(chosen.n, "dimension") if result is None else text.headline(result).split(": ")[0]
    return {
        "sliders": sliders,
        "headline": headline[0].upper() + headline[1:],
        "tau": chosen.trained.tau,
        "mean": _number(chosen.mean_error()),
        "checked": len(chosen.checked),
    }


def input_(explorer: Explorer, request: Json) -> Json:
    """Return one input, its code and the error of its reconstruction."""
    chosen, x = explorer.model(request.get("model")), explorer.inputs.get(request.get("input"))
    code = chosen.encode(x)
    error = float(chosen.trained.error(x, chosen.decode(code))[0])
    return {"code": code[0].tolist(), "error": _number(error), **_shown(explorer, x)}


def decode(explorer: Explorer, request: Json) -> Json:
    """Return what a code decodes to, and its difference from the input if one is chosen."""
    chosen = explorer.model(request.get("model"))
    decoded = chosen.decode(_code(request, chosen), _off(request, chosen))
    response = _shown(explorer, decoded)
    if request.get("input") is not None:
        x = explorer.inputs.get(request["input"])
        response["error"] = _number(float(chosen.trained.error(x, decoded)[0]))
        if explorer.inputs.is_image:
            low, high = explorer.inputs.levels
            difference = images.differences(layout(x), layout(decoded), FULL * (high - low))
            response["difference"] = images.grid([difference], max(explorer.inputs.shape[1:]))
    return response


def check(explorer: Explorer, request: Json) -> Json:
    """Return the mean error of test inputs without the dimensions that are off."""
    chosen = explorer.model(request.get("model"))
    return {"mean": _number(chosen.mean_error(_off(request, chosen)))}


def between(explorer: Explorer, request: Json) -> Json:
    """Return a strip of images that lie between two inputs."""
    chosen, names = explorer.model(request.get("model")), request.get("inputs")
    if not isinstance(names, list) or len(names) != 2:
        raise NarrowsError("a strip needs two inputs; choose a second one")
    if not explorer.inputs.is_image:
        raise NarrowsError("this run was trained on vectors, and a strip needs images")
    first, last = (chosen.encode(explorer.inputs.get(name)) for name in names)
    way = torch.linspace(0, 1, POSITIONS)[:, None]
    decoded = chosen.decode((1 - way) * first + way * last, _off(request, chosen))
    return {"strip": _picture(explorer, decoded)}


HANDLERS: dict[str, Callable[[Explorer, Json], Json]] = {
    "model": model,
    "input": input_,
    "decode": decode,
    "check": check,
    "between": between,
}


def _shown(explorer: Explorer, x: Tensor) -> Json:
    """Return one example as the page shows it."""
    if explorer.inputs.is_image:
        return {"picture": _picture(explorer, x)}
    return {"values": [_number(value) for value in x[0].tolist()]}


def _picture(explorer: Explorer, x: Tensor) -> str:
    return images.grid([images.as_bytes(layout(x), *explorer.inputs.levels)], max(explorer.inputs.shape[1:]))


def _code(request: Json, chosen: Explored) -> Tensor:
    code = request.get("code")
    if not isinstance(code, list) or len(code) != chosen.n:
        raise NarrowsError(f"a code of this model has {chosen.n} numbers; reload the page")
    if not all(type(one) in (int, float) and abs(one) <= LARGEST_CODE for one in code):  # also refuses nan
        raise NarrowsError(f"codes are numbers between -{LARGEST_CODE:g} and {LARGEST_CODE:g}; move the sliders back")
    return torch.from_numpy(np.array([code], dtype=np.float32).reshape(1, chosen.n))


def _off(request: Json, chosen: Explored) -> tuple[int, ...]:
    off = request.get("off", [])
    if not isinstance(off, list) or not all(type(one) is int and 0 <= one < chosen.n for one in off):
        raise NarrowsError(f"dimensions that are off are numbers below {chosen.n}; reload the page")
    return tuple(off)


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
