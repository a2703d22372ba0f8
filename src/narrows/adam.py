"""Adam with less around it: torch's fused kernel, called once a group.

A step of a small network takes some ten milliseconds, of which torch's own Adam spends a twentieth on the way to its
kernel: it collects the parameters' states, sorts them by device, and counts the steps of each. Here they are collected
once, and the counts of a group lie in one tensor. Mathematics, settings and `state_dict` are torch's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Collected(NamedTuple):
    """A group's parameters and their states; each of `steps` is a part of `counts`."""

    parameters: list[Tensor]
    averages: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]
    counts: Tensor


class Adam(torch.optim.Adam):
    """torch's fused Adam, quicker where all parameters are on the CPU and have gradients; else torch's own."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr, fused=True)
        self.collected: dict[int, Collected] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take another state, as `load_state_dict` and copies do."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.collected = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step."""
        groups = [self._collect(number) for number in range(len(self.param_groups))]
        gradients: list[list[Any]] = [[p.grad for p in settings["params"]] for settings in self.param_groups]
        whole = all(gradient is not None for some in gradients for gradient in some)
        if closure is not None or not whole or not all(groups):
            return super().step(closure)
        for group, some, settings in zip(groups, gradients, self.param_groups, strict=True):
            assert group is not None
            group.counts.add_(1)
            beta1, beta2 = settings["betas"]
            torch._fused_adam_(
                group.parameters, some, group.averages, group.squares, [], group.steps,
                lr=settings["lr"], beta1=beta1, beta2=beta2, weight_decay=settings["weight_decay"],
                eps=settings["eps"], amsgrad=False, maximize=settings["maximize"],
            )  # fmt: skip
        return None

    def _collect(self, number: int) -> Collected | None:
        """Return a group, or None if not all its parameters are on the CPU and have had their first step."""
        parameters: list[Tensor] = self.param_groups[number]["params"]
        known = self.collected.get(number)
        if (
            known is not None
            and len(known.parameters) == len(parameters)
            and self.state[parameters[0]].get("step") is known.steps[0]  # not after load_state_dict
        ):
            return known
        states = [self.state[p] for p in parameters]
        if not all(states) or any(p.device.type != "cpu" for p in parameters):
            return None
        counts = torch.stack([state["step"] for state in states])
        for state, step in zip(states, counts.unbind(), strict=True):
            state["step"] = step
        averages, squares, steps = ([s[name] for s in states] for name in ("exp_avg", "exp_avg_sq", "step"))
        self.collected[number] = Collected(list(parameters), averages, squares, steps, counts)
        return self.collected[number]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        if not set_to_none:
            super().zero_grad(set_to_none)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
