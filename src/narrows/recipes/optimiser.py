"""Muon for the hidden layers of convolutional networks, Adam for everything else.

Adam scales every weight on its own. Muon (Jordan et al., 2024) treats a layer's weight as the matrix it is: it replaces
the momentum M of the gradient by the nearest matrix with orthogonal rows or columns, so that an update is equally large
in all directions, also in those that the gradient rarely shows. Convolutional networks then need far fewer batches.

With M = U S V', that matrix is U V'. Five steps of an odd polynomial p(s) = a s + b s^3 + c s^5 bring all singular
values close enough to 1:

    X <- a X + b (X X') X + c (X X')^2 X

All of them are polynomials in the small matrix X X', so they are multiplied there, and X itself only once at the end.

All orthogonalised weights also decay (Loshchilov and Hutter, 2019): on few images, such as 16,000 natural ones, large
networks otherwise learn the images themselves.

The update is scaled by 0.2 sqrt(larger side), which gives it the size of Adam's (Liu et al., 2025), so both share one
learning rate. The latent layer's own weights stay with Adam: their rows are dimensions that close one by one. So do
networks without convolutions, where a batch is so cheap that orthogonalising would take longer, for no gain.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from narrows._util.checks import ABOVE_ZERO, argument
from narrows._util.errors import NarrowsError
from narrows._util.text import brief

MOMENTUM = 0.95
SIZE = 0.2
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
"""a, b, c: chosen by Jordan et al. so that small singular values grow fastest; five steps end between 0.7 and 1.2."""
STEPS = 5
DECAY = 0.1
"""Per batch, orthogonalised weights shrink by this times the learning rate."""
LARGEST = 128
"""Smaller side of the largest matrix that is orthogonalised; larger ones would take longer than the rest of a batch."""


def orthogonalise(matrix: Tensor) -> Tensor:
    """Return nearly U V' for a matrix U S V', (rows, columns)."""
    if matrix.element_size() < 4:  # X X' squares the singular values, and 16 bits cannot hold them
        return orthogonalise(matrix.float()).to(matrix)
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalise(matrix.T).T
    a, b, c = POLYNOMIAL
    scaled = matrix / (matrix.norm() + 1e-7)
    gram = scaled @ scaled.T
    product = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    for _ in range(STEPS):
        factor = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal().add_(a)
        product = factor @ product
        gram = factor @ gram @ factor
    return product @ scaled


class Muon(torch.optim.Adam):
    """Adam, with orthogonalised updates and decoupled weight decay in the groups that say `orthogonal=True`.

    Arguments:
        groups: Groups of parameters, as torch's optimisers take them.
        lr: The learning rate of all of them.

    Raises:
        NarrowsError: The groups are not groups of parameters, or an orthogonal one has a parameter that is no matrix.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float = 2e-3) -> None:
        lr = argument("lr", lr, ABOVE_ZERO)
        try:
            super().__init__(groups, lr=lr, fused=True)
        except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
            words = "parameters, or dicts of them, such as [{'params': [...]}]"
            raise NarrowsError(f"groups must be {words}; they are {brief(groups)}") from error
        for group in self.param_groups:
            for parameter in group["params"]:
                if not parameter.is_floating_point():
                    raise NarrowsError(f"groups must hold floating-point parameters; one is {parameter.dtype}")
                if group.get("orthogonal") and parameter.ndim < 2:
                    raise NarrowsError(
                        f"groups with orthogonal=True must hold weights with two axes or more; one has shape "
                        f"{tuple(parameter.shape)}; put it into another group"
                    )

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        matrices = [
            (parameter, parameter.grad, group["lr"], group["weight_decay"])
            for group in self.param_groups
            if group.get("orthogonal")
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        for parameter, gradient, rate, decay in matrices:
            rows = gradient.flatten(1)
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros(())  # Adam expects one of every state
                state["momentum"] = torch.zeros_like(rows)
            momentum = state["momentum"].lerp_(rows, 1 - MOMENTUM)
            update = orthogonalise(torch.lerp(rows, momentum, MOMENTUM))
            parameter.mul_(1 - decay * rate)
            parameter.sub_((SIZE * max(update.shape) ** 0.5 * rate * update).reshape(parameter.shape))
            parameter.grad = None  # so that Adam passes it over
        super().step()
        for parameter, gradient, *_ in matrices:
            parameter.grad = gradient
        return loss


def make_optimiser(objective: nn.Module, learning_rate: float = 1e-3) -> torch.optim.Adam:
    """Build an objective's optimiser: networks and gates descend, the multiplier, where it is learned, ascends (D5).

    Arguments:
        objective: `Narrowing` or `HiddenNarrowing`, which are trained with Adam as in the paper, or `Fast`, for whose
            convolutional networks it is Muon.
        learning_rate: The step size.

    Raises:
        NarrowsError: There is no such objective, or the step size is not above 0.
    """
    learning_rate = argument("learning_rate", learning_rate, ABOVE_ZERO)
    parts = dict(objective.named_children()) if isinstance(objective, nn.Module) else {}
    if not {"model", "constraint"} <= set(parts):
        raise NarrowsError(f"objective must be a Narrowing, HiddenNarrowing or Fast; it is {brief(objective)}")
    model, constraint = parts["model"], parts["constraint"]
    descends = [p for p in model.parameters() if p.requires_grad]
    hidden = _hidden_matrices(model) if getattr(objective, "orthogonal_updates", False) else []
    matrices = {id(p) for p in hidden}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in descends if id(p) not in matrices]},
        {"params": list(constraint.parameters()), "maximize": True},
        {"params": hidden, "orthogonal": True, "weight_decay": DECAY},
    ]
    kind = Muon if hidden else partial(torch.optim.Adam, fused=True)
    return kind([group for group in groups if group["params"]], lr=learning_rate)


def _hidden_matrices(model: Any) -> list[nn.Parameter]:
    """Return the weights of hidden layers that are orthogonalised: none in networks without convolutions."""
    layer = model.latent_layer
    latent = {id(p) for part in (layer.mean, layer.log_std, layer.stem) for p in part.parameters()}
    weights = [p for p in model.parameters() if p.requires_grad and p.ndim > 1 and id(p) not in latent]
    convolutional = any(p.ndim > 2 for p in weights)
    return [p for p in weights if convolutional and min(p.flatten(1).shape) <= LARGEST]
