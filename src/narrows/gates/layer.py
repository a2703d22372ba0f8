"""A layer of gates for any hidden layer: `gate` puts one behind a layer or block, `Gate` is the layer itself."""

from typing import TypeGuard

from torch import Tensor, nn

from narrows._util.checks import SIZE, Rule, argument
from narrows._util.errors import NarrowsError
from narrows._util.text import brief
from narrows.gates.l0 import L0Gates
from narrows.networks.pruning import PRUNABLE, outputs

LAYERS = "Linear, Conv2d or ConvTranspose2d"
AXIS = Rule("an axis behind the batch, which is axis 0", lambda value: type(value) is int and value != 0)


class Gate(nn.Module):
    """One gate per entry of one axis: hard gates (0 or 1), or those given to `choose`.

    Arguments:
        n: Number of gates: the size of the axis.
        dim: The axis, not 0, which is the batch.

    Raises:
        NarrowsError: If `n` is not a size, or `dim` not an axis behind the batch.
    """

    def __init__(self, n: int, dim: int = 1) -> None:
        super().__init__()
        self.gates = L0Gates(argument("n", n, SIZE))
        self.dim: int = argument("dim", dim, AXIS)
        self.chosen: Tensor | None = None
        self.axes: int | None = None
        """Number of axes of the last input: `narrow` must know which of them `dim` is."""

    def choose(self, gates: Tensor | None) -> None:
        """Use these gates, (batch, n) or (1, n), from now on; None means the hard ones."""
        self.chosen = gates

    def forward(self, x: Tensor) -> Tensor:
        """Multiply axis `dim` of x, (batch, ...), by the gates."""
        gates = self.gates.hard()[None] if self.chosen is None else self.chosen
        if not isinstance(x, Tensor):
            raise NarrowsError(f"gates multiply a tensor, (batch, ...); this is {brief(x)}")
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != self.gates.n:
            raise NarrowsError(
                f"{self.gates.n} gates stand on axis {self.dim} of a tensor of shape {tuple(x.shape)}; the sizes must "
                f"be equal"
            )
        self.axes = x.ndim
        shape = [1] * x.ndim
        shape[0], shape[self.dim] = gates.shape
        return x * gates.view(shape)

    def extra_repr(self) -> str:
        """Return the number of open gates, for a printed network."""
        return f"{len(self.gates.kept())} of {self.gates.n} open, dim={self.dim}"


def gate(module: nn.Module, dim: int | None = None) -> nn.Sequential:
    """Put gates on the outputs of a layer or block: one per unit or channel of its last layer.

    Arguments:
        module: A module with at least one Linear, Conv2d or ConvTranspose2d.
        dim: The axis of the outputs; by default the last one behind a Linear and axis 1 behind a convolution.

    Returns:
        The module, followed by a `Gate`.

    Raises:
        NarrowsError: If the module has no such layer, or `dim` is 0.
    """
    if not isinstance(module, nn.Module):
        raise NarrowsError(f"gate() takes a torch.nn.Module; it was given {brief(module)}")
    layers = [layer for layer in module.modules() if isinstance(layer, PRUNABLE)]
    if not layers:
        raise NarrowsError(f"{type(module).__name__} has no {LAYERS} whose outputs could be gated")
    last = layers[-1]
    placed = Gate(outputs(last), (-1 if isinstance(last, nn.Linear) else 1) if dim is None else dim).to(last.weight)
    return nn.Sequential(*(module if is_sequence(module) else [module]), placed)


def gates_in(model: nn.Module) -> list[Gate]:
    """Return all gates of a network, in order."""
    return [module for module in model.modules() if isinstance(module, Gate)]


def is_sequence(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Return whether a module does exactly what nn.Sequential does."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward
