"""The recipes: their steps, their noise, their controller and their optimiser."""

from typing import Any

import torch
from torch import nn

from faults.calls.frame import (
    COUNT,
    HUGE,
    INF,
    LATENT,
    LINEAR,
    NAN,
    NOT_ABOVE_ZERO,
    NOT_COUNTS,
    NOT_FLAGS,
    NOT_FUNCTIONS,
    NOT_GENERATORS,
    NOT_MODELS,
    NOT_NUMBERS,
    NOT_SEEDS,
    NOT_TENSORS,
    TOLERANCES,
    Good,
    N,
    each,
    one,
)
from narrows import (
    Controller,
    ControllerConfig,
    Fast,
    Geco,
    HiddenNarrowing,
    Muon,
    Narrowing,
    Terms,
    draw_noise,
    make_optimiser,
)

RECIPES = [
    *each(
        "draw_noise(batch)", f"batch {COUNT}", lambda g, v: draw_noise(v, N, g.generator), (None, "4", -1, 2.5, True)
    ),
    *each("draw_noise(latent)", LATENT, lambda g, v: draw_noise(4, v, g.generator), (None, "4", -1, 2.5, True, (4, 2))),
    *each(
        "draw_noise(generator)", "generator must be a torch", lambda g, v: draw_noise(4, N, v), (None, *NOT_GENERATORS)
    ),
    *each(
        "draw_noise(share)",
        "share must be one of example, batch",
        lambda g, v: draw_noise(4, N, g.generator, v),
        (None, "Batch", True, ["batch"]),
    ),
    *each(
        "draw_noise(dtype)", "dtype must be", lambda g, v: draw_noise(4, N, g.generator, dtype=v), ("f", torch.int32)
    ),
    *one("draw_noise", "there is not enough memory", lambda g: draw_noise(10**14, N, g.generator)),
    *each("Narrowing(model)", "model must be a GatedVAE", lambda g, v: Narrowing(v, g.geco), NOT_MODELS),
    *one("Narrowing(model)", "model must be a GatedVAE", lambda g: Narrowing(g.vae, g.geco)),
    *each(
        "Narrowing(constraint)", "constraint must be a Geco", lambda g, v: Narrowing(g.model, v), (None, 1.0, "x", Geco)
    ),
    *each(
        "Narrowing(estimator)",
        "estimator must be one of arm, disarm",
        lambda g, v: Narrowing(g.model, g.geco, v),
        (None, "xx", 1, ["arm"]),
    ),
    *each("Narrowing(error)", "error must be a func", lambda g, v: Narrowing(g.model, g.geco, error=v), NOT_FUNCTIONS),
    *each(
        "Narrowing.forward(noise)", "noise must be a Noise", lambda g, v: g.narrowing(g.x, v), (None, 1, "x", (1, 2))
    ),
    *one(
        "Narrowing.forward",
        r"noise.eps must have the shape \(60, 4\) for this batch; it has \(5, 4\)",
        lambda g: g.narrowing(g.x, draw_noise(5, N, g.generator)),
    ),
    *one("Narrowing.forward", "x must be a tensor", lambda g: g.narrowing(g.x.numpy(), draw_noise(60, N, g.generator))),
    *one(
        "Narrowing.forward",
        r"error must return one number per example, \(60,\)",
        lambda g: Narrowing(g.model, g.geco, error=lambda x, y: (x - y).mean())(g.x, draw_noise(60, N, g.generator)),
    ),
    *each(
        "HiddenNarrowing(model)", "model must be a torch.nn", lambda g, v: HiddenNarrowing(v, g.geco, len), (None, {})
    ),
    *one("HiddenNarrowing(model)", "the network has no gates", lambda g: HiddenNarrowing(nn.Linear(2, 2), g.geco, len)),
    *each(
        "HiddenNarrowing(constraint)",
        "constraint must be a Geco",
        lambda g, v: HiddenNarrowing(g.gated, v, g.network_error),
        (None, 0.5),
    ),
    *each(
        "HiddenNarrowing(error)",
        "error must be a func",
        lambda g, v: HiddenNarrowing(g.gated, g.geco, v),
        NOT_FUNCTIONS,
    ),
    *each("HiddenNarrowing.draw(rows)", f"rows {COUNT}", lambda g, v: g.hidden.draw(v, g.generator), (None, -1, "4")),
    *each(
        "HiddenNarrowing.forward",
        r"u must be a tensor of shape \(batch, 5\)",
        lambda g, v: g.hidden((g.x,), v),
        (None, 3),
    ),
    *one("HiddenNarrowing.forward", "u must be a tensor", lambda g: g.hidden((g.x,), torch.rand(60, 3))),
    *one("HiddenNarrowing.forward", "batch must be the arguments of error", lambda g: g.hidden(3, torch.rand(60, 5))),
    *one(
        "HiddenNarrowing.forward",
        "error must return one number per example",
        lambda g: HiddenNarrowing(g.gated, g.geco, lambda net, x: net(x).mean())((g.x,), torch.rand(60, 5)),
    ),
    *each(
        "Controller(config)",
        "config must be a ControllerConfig",
        lambda g, v: Controller(v),
        ({}, 400, "x", Controller),
    ),
    *each("Controller(steps)", f"steps {COUNT}, or None", lambda g, v: Controller(steps=v), NOT_COUNTS[1:]),
    *each("Controller(bounded)", "bounded must be true or false", lambda g, v: Controller(bounded=v), NOT_FLAGS),
    *each(
        "ControllerConfig(patience)",
        "patience must be a number of at least 0",
        lambda g, v: ControllerConfig(patience=v),
        (*NOT_NUMBERS, -0.5),
    ),
    *each(
        "ControllerConfig(pause)",
        "pause must be a whole number",
        lambda g, v: ControllerConfig(v),
        (None, "5", -1, 2.5),
    ),
    *each("ControllerConfig(last)", "last must be a number", lambda g, v: ControllerConfig(last=v), (None, NAN, -1)),
    *each(
        "ControllerConfig(closes)", "closes must be true or false", lambda g, v: ControllerConfig(closes=v), NOT_FLAGS
    ),
]


def fast(good: Good, **settings: Any) -> Fast:
    """Return the recipe with one argument replaced."""
    usual = {"model": good.model, "tolerance": 1.0, "held_out": good.draw, "split_sizes": (30, 30)}
    return Fast(**{**usual, **settings})


FAST = [
    *each("Fast(model)", "model must be a GatedVAE", lambda g, v: Fast(v, 1.0, g.draw, (9, 9)), NOT_MODELS),
    *each("Fast(tolerance)", TOLERANCES, lambda g, v: fast(g, tolerance=v), ("x", NAN, INF, HUGE, True, [], {})),
    *each(
        "Fast(tolerance)", "tolerances must be numbers above 0", lambda g, v: fast(g, tolerance=v), (0, -1, [1.0, 0.0])
    ),
    *each("Fast(held_out)", "held_out must be a function", lambda g, v: fast(g, held_out=v), NOT_FUNCTIONS),
    *each(
        "Fast(split_sizes)",
        "split_sizes must be two counts",
        lambda g, v: fast(g, split_sizes=v),
        (None, 10, (10,), (1, 2, 3), (0, 9), (9, -1), (9.5, 9), "99", (True, 9), {}, (9, None)),
    ),
    *each("Fast(error)", "error must be a function", lambda g, v: fast(g, error=v), NOT_FUNCTIONS),
    *each(
        "Fast(controller)", "controller must be a Controller", lambda g, v: fast(g, controller=v), ({}, 400, Controller)
    ),
    *each(
        "Fast(aim)",
        "aim must be above 0 and at most 1, or None",
        lambda g, v: fast(g, aim=v),
        (0, 2, -0.5, *NOT_NUMBERS[1:]),
    ),
    *each("Fast(seed)", "seed must be a whole number between 0 and 2", lambda g, v: fast(g, seed=v), NOT_SEEDS),
    *each("Fast(share)", "share must be a function", lambda g, v: fast(g, share=v), (None, 1)),
    *each("Fast(training_examples)", "training_examples must", lambda g, v: fast(g, training_examples=v), ("x", [], 3)),
    *each("Fast(terms)", "terms must be the Terms", lambda g, v: fast(g, terms=v), (0.95, {}, "exact", Terms)),
    *each("Fast.noise(count)", f"count {COUNT}", lambda g, v: g.fast.noise(v, g.generator), (None, "4", -1, 2.5)),
    *each(
        "Fast.noise(generator)", "generator must be a torch", lambda g, v: g.fast.noise(4, v), (None, *NOT_GENERATORS)
    ),
    *one("Fast.noise(count)", "there is not enough memory", lambda g: g.fast.noise(10**14, g.generator)),
    *each("Fast.forward(noise)", "noise must be a Noise", lambda g, v: g.fast(g.x, v), (None, 3, "x", LINEAR)),
    *one("Fast.forward", r"noise.eps must have the shape", lambda g: g.fast(g.x, g.fast.noise(7, g.generator))),
    *each(
        "Fast.forward(x)", "x must be a tensor of ex", lambda g, v: g.fast(v, g.fast.noise(2, g.generator)), NOT_TENSORS
    ),
    *each(
        "Fast.after_step",
        "optimiser must be a torch optimiser",
        lambda g, v: fast(g).after_step(v),
        (None, "adam", 1e-3),
    ),
    *each(
        "Fast.load_recipe_state",
        "state must be what recipe_state",
        lambda g, v: fast(g).load_recipe_state(v),
        (None, {}, 3),
    ),
    *one(
        "Fast(held_out)",
        "held_out must return as many examples as it is asked for; of 256 it returned 60",
        lambda g: fast(g, held_out=lambda count, generator: g.x).monitor.measure(),
    ),
    *one(
        "Fast(held_out)",
        r"held_out must return a tensor of examples, \(256, ...\); it returned None",
        lambda g: fast(g, held_out=lambda count, generator: None).monitor.measure(),
    ),
    *one(
        "Fast(error)",
        "error must return one number per example",
        lambda g: fast(g, error=lambda x, y: 3.0)(g.x, g.fast.noise(60, g.generator)),
    ),
    *each(
        "make_optimiser(objective)",
        "objective must be a Narrowing, HiddenNarrowing or Fast",
        lambda g, v: make_optimiser(v),
        (None, "fast", {}, nn.Linear(2, 2)),
    ),
    *each(
        "make_optimiser(learning_rate)",
        "learning_rate must be a number ab",
        lambda g, v: make_optimiser(g.fast, v),
        NOT_ABOVE_ZERO,
    ),
    *each("Muon(lr)", "lr must be a number above 0", lambda g, v: Muon(g.encoder.parameters(), v), NOT_ABOVE_ZERO),
    *each(
        "Muon(groups)",
        r"groups must be parameters, or dicts of them, such as \[\{'params'",
        lambda g, v: Muon(v),
        (None, 3, "x", [], [{}], [{"params": 3}], torch.zeros(2)),
    ),
    *one("Muon(groups)", "groups must hold floating-point", lambda g: Muon([torch.zeros(2, dtype=torch.int64)])),
    *one(
        "Muon(groups)",
        "groups with orthogonal=True must hold weights with two axes",
        lambda g: Muon([{"params": [nn.Parameter(torch.zeros(3))], "orthogonal": True}]),
    ),
]
