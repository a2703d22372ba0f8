"""Gates, the layers they stand on, and the operations that remove units."""

import torch
from torch import nn

from faults.calls.frame import (
    COUNT,
    HUGE,
    NAN,
    NOT_ABOVE_ZERO,
    NOT_GENERATORS,
    NOT_NUMBERS,
    NOT_SIZES,
    NOT_TENSORS,
    SIZE,
    N,
    each,
    one,
)
from narrows import (
    Gate,
    L0Gates,
    gate,
    narrow,
)
from narrows.gates.l0 import draw_uniform
from narrows.networks.pruning import with_inputs, with_outputs

GATES = [
    *each("L0Gates(n)", f"n {SIZE}", lambda good, v: L0Gates(v), NOT_SIZES),
    *each("L0Gates(steepness)", "steepness must be a number above 0", lambda good, v: L0Gates(3, v), NOT_ABOVE_ZERO),
    *each("L0Gates(start)", "start must be a number", lambda good, v: L0Gates(3, start=v), NOT_NUMBERS),
    *each(
        "close",
        "gates must be a list of gates, numbers from 0 to 3",
        lambda g, v: g.gates.close(v),
        (None, 2, [4], [-1]),
    ),
    *each("open", "gates must be a list of gates", lambda g, v: g.gates.open(v), ("01", [0.5], {0}, [True], [HUGE])),
    *each("pair(u)", r"u must be a tensor of shape \(rows, 4\)", lambda g, v: g.gates.pair(v), NOT_TENSORS),
    *one("pair(u)", r"u must be .*it has shape \(5, 3\)", lambda g: g.gates.pair(torch.rand(5, 3))),
    *each(
        "gradient(difference)",
        r"difference must be a tensor of shape \(5,\)",
        lambda g, v: g.gates.gradient(v, g.pair),
        (None, "x", 3, [1.0]),
    ),
    *one("gradient", r"difference must.*it has shape \(7,\)", lambda g: g.gates.gradient(torch.zeros(7), g.pair)),
    *each(
        "gradient(pair)", "pair must be a GatePair", lambda g, v: g.gates.gradient(torch.zeros(5), v), (None, "x", 3)
    ),
    *each(
        "gradient(estimator)",
        "estimator must be one of arm, disarm",
        lambda g, v: g.gates.gradient(torch.zeros(5), g.pair, v),
        (None, "ARM", 1, ["arm"]),
    ),
    *each(
        "surrogate", r"gradient must be a tensor of shape \(4,\)", lambda g, v: g.gates.surrogate(v), (None, "x", [1])
    ),
    *one("surrogate", r"gradient must.*it has shape \(5,\)", lambda g: g.gates.surrogate(torch.zeros(5))),
    *each("draw_uniform(rows)", f"rows {COUNT}", lambda g, v: draw_uniform(v, N, g.generator), (None, "4", -1, 2.5)),
    *each(
        "draw_uniform(n)", "n must be a whole number from 0", lambda g, v: draw_uniform(4, v, g.generator), (None, -1)
    ),
    *each(
        "draw_uniform(generator)", "generator must be a torch.Gen", lambda g, v: draw_uniform(4, N, v), NOT_GENERATORS
    ),
    *each(
        "draw_uniform(dtype)", "dtype must be", lambda g, v: draw_uniform(4, N, g.generator, v), ("float", torch.int8)
    ),
    *one("draw_uniform", "there is not enough memory", lambda g: draw_uniform(10**13, 10**5, g.generator)),
    *each("Gate(n)", f"n {SIZE}", lambda good, v: Gate(v), NOT_SIZES),
    *each(
        "Gate(dim)", "dim must be an axis behind the batch", lambda good, v: Gate(3, v), (None, "1", 0, 1.5, True, NAN)
    ),
    *each("Gate.forward", "gates multiply a tensor", lambda good, v: Gate(3)(v), NOT_TENSORS),
    *one("Gate.forward", "3 gates stand on axis 1 of a tensor of shape", lambda good: Gate(3)(torch.zeros(2, 4))),
    *one("Gate.forward", "3 gates stand on axis 2 of a tensor of shape", lambda good: Gate(3, 2)(torch.zeros(2, 3))),
    *each("gate(module)", r"gate\(\) takes a torch.nn.Module", lambda g, v: gate(v), (None, "x", 3, nn.Linear, [])),
    *one("gate(module)", "ReLU has no Linear, Conv2d or ConvTranspose2d", lambda good: gate(nn.ReLU())),
    *each("gate(dim)", "dim must be an axis", lambda good, v: gate(nn.Linear(2, 2), v), ("1", 0, 1.5, True)),
    *each("narrow(model)", r"narrow\(\) takes a torch.nn.Module", lambda g, v: narrow(v), (None, "x", {}, nn.Linear)),
    *one("narrow(model)", "a gate alone", lambda good: narrow(Gate(3))),
]

PRUNING = [
    *each("with_outputs(layer)", "layer must be a Linear", lambda g, v: with_outputs(v, [0]), (None, "x", nn.ReLU())),
    *each("with_inputs(layer)", "layer must be a Linear", lambda g, v: with_inputs(v, [0]), (None, 3, nn.LSTM(2, 2))),
    *each(
        "with_outputs(kept)",
        "kept must be a list of dimensions, numbers from 0 to 2",
        lambda g, v: with_outputs(nn.Linear(2, 3), v),
        (None, 1, "01", [3], [-1], [0.5], [True], [[0]], torch.zeros(2)),
    ),
    *each(
        "with_inputs(kept)",
        "kept must be a list of dimensions, numbers from 0 to 1",
        lambda g, v: with_inputs(nn.Linear(2, 3), v),
        (None, {0: 1}, [2], [HUGE], [NAN]),
    ),
    *one("with_outputs", "no channel can be removed", lambda g: with_outputs(nn.Conv2d(2, 2, 1, groups=2), [0])),
]
