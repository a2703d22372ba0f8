"""What an encoder and a decoder must fulfil so that latent dimensions can be gated and removed.

Sizes are checked when the model is built, everything else on the first examples: `check_networks` removes a dimension
from a copy and compares outputs. Copies are in evaluation mode and full precision, and both sides of a comparison draw
the same random numbers, so only the function can differ. Outputs may be tensors, collections of them, or objects that
hold them, such as distributions.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from narrows._util.checks import TEXT, Rule, argument, instance_of, several
from narrows._util.errors import NarrowsError, setting
from narrows._util.text import brief
from narrows.networks import CONFIG, Decoder, Encoder, Scaling
from narrows.networks.base import DIMENSIONS
from narrows.networks.latent_layer import Coordinates
from narrows.networks.pruning import PRUNABLE, Prunable, inputs, outputs

if TYPE_CHECKING:
    from narrows.model.vae import VAE, GatedVAE

Module = TypeVar("Module", bound=nn.Module)
Result = TypeVar("Result")
LATENT = Rule("a number of dimensions, or (channels, height, width)", DIMENSIONS.holds)


def latent_shape(latent: Any) -> tuple[int, ...]:
    """Return the shape of one example's z; raise if `latent` does not give one. What was narrowed may have size 0."""
    if not isinstance(latent, Sequence) and getattr(latent, "ndim", None) != 1:
        return (argument("latent", latent, LATENT),)
    sizes = several("latent", latent, LATENT, LATENT.words, lengths=(1, 3))
    if 0 in sizes[1:]:
        raise NarrowsError(f"{setting('latent')} must be {LATENT.words}; it is {brief(latent)}")
    return tuple(sizes)


def check_parts(heads: Any, stem: Any, scaling: Any, network: Any, n: int) -> None:
    """Raise if what was given to a model beside its networks is of another kind."""
    if heads:
        several("heads", heads, TEXT, "one or two names of layers, such as ['mu', 'log_std']", lengths=(1, 2))
    argument("stem", stem, Rule("the name of a layer, such as 'input'", TEXT.holds))
    argument("scaling", scaling, instance_of(Scaling, "a narrows.networks.Scaling"), or_none=True)
    argument("network", network, CONFIG, or_none=True)
    if network is not None and network.n != n:
        raise NarrowsError(f"network says {network.n} dimensions and latent says {n}; leave network out for your own")


def find_heads(encoder: nn.Module, n: int, names: Sequence[str]) -> list[str]:
    """Return the names of the layers that make the latent dimensions; raise if they have other sizes."""
    layers = _prunable_layers(encoder, "encoder")
    if not names and isinstance(encoder, Encoder):
        names = ["head"]
    if not names:
        pair = len(layers) > 1 and all(outputs(layers[name]) == n for name in list(layers)[-2:])
        names = list(layers)[-2:] if pair else list(layers)[-1:]
    sizes = [outputs(prunable(encoder, "encoder", name)) for name in names]
    if n == 0 and any(sizes):
        raise NarrowsError("latent must be at least 1 for networks that make latent dimensions; it is 0")
    if sizes not in ([2 * n], [n, n]):
        found = ", ".join(f"{_label('encoder', name)} has {size}" for name, size in zip(names, sizes, strict=True))
        raise NarrowsError(
            f"the encoder must end with one layer of {2 * n} outputs (means, then log standard deviations) or two of "
            f"{n} each; {found or 'it has none'}; name the right layers with heads="
        )
    return list(names)


def find_stem(decoder: nn.Module, n: int, name: str) -> str:
    """Return the name of the layer that reads z; raise if it has another size."""
    layers = _prunable_layers(decoder, "decoder")
    if not name:
        name = "stem" if isinstance(decoder, Decoder) else next(iter(layers), "")
    size = inputs(prunable(decoder, "decoder", name))
    if size != n:
        raise NarrowsError(
            f"the decoder must begin with a layer that reads the {n} latent dimensions and nothing else; "
            f"{_label('decoder', name)} has {size} inputs; name the right layer with stem="
        )
    return name


def prunable(module: nn.Module, which: str, name: str) -> Prunable:
    """Return a layer by its name; raise if nothing can be removed from it."""
    try:
        layer = module.get_submodule(name)
    except AttributeError:
        layers = _prunable_layers(module, which)
        known = ", ".join(f"{one!r}" if one else f"'', the {which} itself" for one in layers) or "none"
        raise NarrowsError(f"the {which} has no layer {brief(name)}; it can be one of: {known}") from None
    if not isinstance(layer, PRUNABLE):
        kind = type(layer).__name__
        raise NarrowsError(f"{_label(which, name)} is a {kind}; it must be a Linear, Conv2d or ConvTranspose2d")
    return layer


def _label(which: str, name: str) -> str:
    return f"{which}.{name}" if name else which


def _prunable_layers(module: nn.Module, which: str) -> dict[str, Prunable]:
    if not isinstance(module, nn.Module):
        raise NarrowsError(f"the {which} must be a torch.nn.Module; it is {brief(module)}")
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, PRUNABLE)}


def split_output(output: Any, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the encoder's mean and log standard deviation; raise if they are not two tensors of this shape."""
    pair = output.chunk(2, dim=1) if isinstance(output, Tensor) else output
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(half, Tensor) for half in pair):
        count = f" of {len(pair)}" if isinstance(pair, list | tuple) else ""
        raise NarrowsError(
            f"the encoder must return the mean and the log standard deviation, as two tensors or as one with both "
            f"along axis 1; it returns a {type(output).__name__}{count}"
        )
    mean, log_std = pair
    if not mean.shape[1:] == log_std.shape[1:] == shape:
        raise NarrowsError(
            f"the encoder must return means and log standard deviations of shape {shape} per example, as latent says; "
            f"it returns {tuple(mean.shape[1:])} and {tuple(log_std.shape[1:])}"
        )
    return mean, log_std


def check_examples(model: "VAE", x: Any) -> None:
    """Raise if x cannot be encoded: called when encoding has failed."""
    shape = None if model.network is None else model.network.shape
    if model.network is not None and model.network.batches:
        shape = (model.network.shape[0] + model.network.batches,)
    wanted = "" if shape is None else f", (batch, {', '.join(map(str, shape))})"
    if not isinstance(x, Tensor) or (shape is not None and x.shape[1:] != shape):
        raise NarrowsError(f"x must be a tensor of examples{wanted}; it is {_found(x)}")
    if shape is None and model.scaling.output == "none" and x.is_floating_point():  # others are cast, or whole numbers
        _check_precision(model, "x", x)


def check_codes(model: "VAE", z: Any) -> None:
    """Raise if z cannot be decoded: called when decoding has failed."""
    wanted = f"(batch, {', '.join(map(str, model.latent_shape))})"
    if not isinstance(z, Tensor) or z.shape[1:] != model.latent_shape:
        raise NarrowsError(f"z must be a tensor of codes, {wanted}; it is {_found(z)}")
    _check_precision(model, "z", z)


def _check_precision(model: "VAE", name: str, given: Tensor) -> None:
    expected = model.latent_layer.stem.weight.dtype
    if given.dtype != expected:
        raise NarrowsError(f"{name} must be {expected}, as the model is; it is {given.dtype}")


def _found(value: Any) -> str:
    return f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else brief(value)


@torch.no_grad()
def check_networks(model: "GatedVAE", x: Tensor) -> list[str] | None:
    """Raise if the networks do not follow the contract, or if a dimension cannot be removed from them.

    Arguments:
        model: The model; it stays as it is.
        x: Examples, `(batch, *shape)`, of which two are used.

    Returns:
        The heads, means first, if the latent layer can take other coordinates of z without a change of the output;
        otherwise None. Two heads are tried in either order.
    """
    if not isinstance(x, Tensor) or x.ndim == 0 or not len(x):
        raise NarrowsError(f"x must be a tensor of examples, (batch, ...); it is {_found(x)}")
    with trial_copy(model) as trial:
        trial.checked = True
        x = x[:2].to(trial.latent_layer.stem.weight.dtype) if x.is_floating_point() else x[:2]  # also under autocast
        z = _first_output("encoder", lambda: trial.encode(x).mean, x)
        shared = (None, None) if isinstance(trial.decoder, Decoder) else ()  # `record` and `reuse`
        output = _first_output("decoder", lambda: trial.decoder(z, *shared), z)
        if model.scaling.output != "none" and getattr(output, "shape", None) != x.shape:
            found = tuple(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
            raise NarrowsError(
                f"the decoder must return examples, {tuple(x.shape)} for two of them; it returns {found}"
            )
        kept = list(range(1, model.n))
        if kept or len(model.latent_shape) == 1:
            smaller = trial.narrow(kept)
            if not same_output(lambda: [half[:, kept] for half in trial.encode(x)], lambda: smaller.encode(x)):
                raise NarrowsError(
                    f"the encoder's means and log standard deviations must be the output of "
                    f"{' and '.join(map(repr, model.heads))}, unchanged, but removing one dimension changes the "
                    f"others; name the right layers with heads="
                )
        for heads in (model.heads, model.heads[::-1]):
            trial.heads = heads
            if _can_mix(trial, x):
                return heads
    return None


@torch.no_grad()
def check_narrowed(model: "VAE", smaller: "VAE", kept: Sequence[int]) -> None:
    """Raise if the narrowed decoder is another function: a decoder that reads z in a second place is found here."""
    weight = model.latent_layer.stem.weight
    generator = torch.Generator(weight.device).manual_seed(0)
    z = torch.randn(2, *model.latent_shape, generator=generator, device=weight.device).to(weight.dtype)
    gated = torch.zeros_like(z)
    gated[:, kept] = z[:, kept]
    with trial_copy(model.decoder) as before, trial_copy(smaller.decoder) as after:
        if not same_output(lambda: before(gated), lambda: after(z[:, kept])):
            raise NarrowsError(
                f"without the closed dimensions the decoder is another function, because more than its layer "
                f"{model.stem!r} reads z; name the right layer with stem=, or remove the dimensions with "
                f"narrows.networks.pruning"
            )


def _first_output(which: str, call: Callable[[], Result], given: Tensor) -> Result:
    try:
        return call()
    except NarrowsError:
        raise
    except Exception as error:  # the user's code may raise anything
        reason = str(error).partition("\n")[0]
        raise NarrowsError(
            f"the {which} fails on a batch of shape {tuple(given.shape)}: {type(error).__name__}: {reason}"
        ) from error


def _can_mix(model: "GatedVAE", x: Tensor) -> bool:
    """Return whether the latent layer can take other coordinates, and the output stays as it is."""
    layer = model.latent_layer
    ramp = torch.linspace(0.5, 2.0, model.n, dtype=torch.float64)
    mix = ramp.diag() + torch.ones_like(ramp).diag().roll(1, 0) / 4
    new = Coordinates(mix, mix.inverse(), (ramp - 1) * layer.shiftable(), torch.eye(model.n), torch.zeros(model.n))
    with trial_copy(model) as moved:
        moved.latent_layer.change(new)
        return same_output(lambda: model.decode(model.encode(x).mean), lambda: moved.decode(moved.encode(x).mean))


@contextlib.contextmanager
def trial_copy(module: Module) -> Iterator[Module]:
    """Yield a copy in evaluation mode and full precision, which may be changed."""
    device = next((p.device.type for p in module.parameters()), "cpu")
    with torch.autocast(device, enabled=False):
        yield copy.deepcopy(module).eval()


def same_output(one: Callable[[], Any], other: Callable[[], Any]) -> bool:
    """Return whether two functions return the same numbers, up to rounding; one that fails counts as different."""
    results = []
    for call in (one, other):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                results.append(list(_tensors(call())))
            except (RuntimeError, NarrowsError):
                return False
    a, b = results
    return len(a) == len(b) and all(map(_close, a, b))


def _close(a: Tensor, b: Tensor) -> bool:
    largest = a.abs().max().item() if a.numel() else 0.0
    rounding = torch.finfo(a.dtype).eps ** 0.5 * largest
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=rounding)


def _tensors(output: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors in whatever a network returned."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
        return
    if isinstance(output, Mapping):
        output = list(output.values())
    elif not isinstance(output, list | tuple) and hasattr(output, "__dict__"):
        output = [value for value in vars(output).values() if isinstance(value, Tensor | list | tuple | Mapping)]
    for value in output if isinstance(output, list | tuple) else ():
        yield from _tensors(value)
