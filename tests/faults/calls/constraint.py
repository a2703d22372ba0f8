"""The constraint, the terms of the loss, and the certificate."""

import numpy as np
import torch

from faults.calls.frame import HUGE, INF, NAN, NOT_ABOVE_ZERO, NOT_NUMBERS, TOLERANCES, each, one
from narrows import (
    Geco,
    GecoConfig,
    Terms,
)
from narrows.objective import absolute_error, cross_entropy, gated_kl, kl_elements, squared_error

CONSTRAINT = [
    *each(
        "GecoConfig(decay)",
        "decay must be at least 0 and below 1",
        lambda g, v: GecoConfig(decay=v),
        (*NOT_NUMBERS, 1, -0.1),
    ),
    *each("GecoConfig(start)", "start must be a number", lambda g, v: GecoConfig(start=v), NOT_NUMBERS),
    *each("GecoConfig(lowest)", "lowest must be a number above 0", lambda g, v: GecoConfig(lowest=v), NOT_ABOVE_ZERO),
    *each(
        "GecoConfig(highest)", "highest must be a number above 0", lambda g, v: GecoConfig(highest=v), NOT_ABOVE_ZERO
    ),
    *one("GecoConfig", "lowest must be above 0 and at most highest", lambda g: GecoConfig(lowest=9.0, highest=1.0)),
    *each(
        "GecoConfig(relative_scale)",
        "relative_scale must be a number above 0, or None",
        lambda g, v: GecoConfig(relative_scale=v),
        NOT_ABOVE_ZERO[1:],
    ),
    *each(
        "Geco(tolerance)",
        TOLERANCES,
        lambda g, v: Geco(v),
        (None, "a", NAN, INF, HUGE, True, [], {}, [[1.0, 2.0]], 1e39, 1j),
    ),
    *each(
        "Geco(tolerance)", "tolerances must be at least 0", lambda g, v: Geco(v), (-1, [1.0, -2.0], torch.tensor(-1.0))
    ),
    *one("Geco(tolerance)", "tolerances must be at least 0", lambda g: Geco(0, GecoConfig(relative_scale=1.0))),
    *each("Geco(config)", "config must be a GecoConfig", lambda g, v: Geco(1.0, v), ({}, "relative", 0.99, GecoConfig)),
    *each(
        "Geco.forward",
        "error must be a tensor",
        lambda g, v: g.geco(v),
        (None, 1.0, [1.0], np.ones(3), torch.tensor(1.0)),
    ),
    *one("Geco.forward", "the error returns 2 numbers per example for 1", lambda g: g.geco(torch.zeros(3, 2))),
]

SAME = "must be tensors of the same shape"
OBJECTIVE = [
    *each("squared_error", f"x and reconstruction {SAME}", lambda g, v: squared_error(v, g.x), (None, "x", 3, [1.0])),
    *each("squared_error", f"x and reconstruction {SAME}", lambda g, v: squared_error(g.x, v), (None, "x", 3, [1.0])),
    *one("squared_error", f"x and.* {SAME}; they are", lambda g: squared_error(g.x, g.x[:, :1])),
    *one("absolute_error", f"x and.* {SAME}; they are", lambda g: absolute_error(g.x, g.x[:1])),
    *one("absolute_error", f"x and.* {SAME}", lambda g: absolute_error(g.x, g.x.numpy())),
    *one("cross_entropy", f"x and.* {SAME}", lambda g: cross_entropy(g.x, g.x[0])),
    *one(
        "cross_entropy",
        r"cross-entropy needs values in \[0, 1\]; reconstruction",
        lambda g: cross_entropy(g.x, 3 * g.x),
    ),
    *one("kl_elements", f"mean and log_std {SAME}", lambda g: kl_elements(torch.zeros(3, 2), torch.zeros(3, 4))),
    *one("kl_elements", f"mean and log_std {SAME}", lambda g: kl_elements(torch.zeros(3, 2), None)),
    *one("gated_kl", f"kl and gates {SAME}", lambda g: gated_kl(torch.zeros(3, 2), torch.ones(2))),
    *one("gated_kl", f"kl and gates {SAME}", lambda g: gated_kl(None, torch.ones(3, 2))),
]

CERTIFICATE = [
    *each(
        "Terms(confidence)",
        "confidence must be at least 0.5 and below 1",
        lambda g, v: Terms(v),
        (*NOT_NUMBERS, 0, 0.4, 1, 95),
    ),
    *each("Terms(limit)", "limit must be a number above 0", lambda g, v: Terms(limit=v), NOT_ABOVE_ZERO[1:]),
    *each("Terms(unused)", "unused must be a number above 0", lambda g, v: Terms(unused=v), ("1", 0, NAN)),
    *each(
        "Terms.upper(errors)",
        "errors must be finite numbers, one or more",
        lambda g, v: Terms().upper(v),
        (None, 1.0, "x", [], [NAN], np.array([INF]), ["a"], np.zeros((2, 2)), {}, torch.tensor([NAN])),
    ),
    *each(
        "Terms.upper(spread)",
        "spread must be a number of at least 0, or None",
        lambda g, v: Terms(limit=9.0).upper([1.0], v),
        ("1", -1, NAN, INF, True),
    ),
    *one("Terms.upper", "an exact upper end needs the spread", lambda g: Terms(limit=9.0).upper([1.0])),
    *one("Terms.upper", "an error of 20 is above 9", lambda g: Terms(limit=9.0).upper([20.0], 1.0)),
]
