"""4a. Your own networks: any encoder and decoder, with gates between them, for latent vectors or latent maps.

    model = OwnVAE(encoder, decoder, latent=16)                 # z is (batch, 16)
    model = OwnVAE(encoder, decoder, latent=(16, 7, 7))         # z is (batch, 16, 7, 7), one gate a channel

`encoder(x)` returns the mean and the log standard deviation: two tensors, or one that has them one after the other
along axis 1. `decoder(z)` returns whatever your error compares with x. The model trains with `Narrowing` (Algorithm 1)
and with `Fast` (the fast recipe) in a loop of your own; `narrow()` returns a copy whose networks have lost the closed
dimensions.

For that, two places must be known: the layer that makes the latent dimensions (two where means and deviations have
layers of their own) and the one that reads them, all Linear, Conv2d or ConvTranspose2d. They are found by their sizes,
as the encoder's last and the decoder's first; `heads` and `stem` name them where that is wrong. Whether it is right is
tried out on the first examples that come (probing.py), so that no training ends with a model that cannot be cut.
"""

import contextlib
import copy
from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from narrows.cutting import CUTTABLE, Cuttable, LatentLayer, inputs, outputs, with_inputs, with_outputs
from narrows.errors import NarrowsError
from narrows.gates import L0Gates
from narrows.layers import Statistics, keep_running_averages
from narrows.model import LOG_STD_BOUND, GatedVAE, Posterior, standard_normal
from narrows.probing import alike, alone


class OwnVAE(nn.Module):
    """A VAE of your own networks, with one gate a latent dimension (of a map: a channel)."""

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        latent: int | Sequence[int],
        heads: Sequence[str] = (),
        stem: str = "",
        kept: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        for name, module in (("encoder", encoder), ("decoder", decoder)):
            if not isinstance(module, nn.Module):
                raise NarrowsError(f"{name} must be a torch module; it is {module!r:.80}")
        self.encoder, self.decoder = encoder, decoder
        self.latent_shape = _shape(latent)
        self.gates = L0Gates(self.n)
        self.kept = list(range(self.n)) if kept is None else list(kept)
        """Which dimensions of the original model its own are."""
        self.heads = [_named(encoder, "encoder", name) for name in heads] or _find_heads(encoder, self.n)
        self.stem = _named(decoder, "decoder", stem) if stem else _find_stem(decoder, self.n)
        self._check_sizes()
        self.rows_alone = not any(isinstance(module, _BatchNorm) for module in decoder.modules())
        """Whether an example is decoded the same whatever else is in its batch."""
        self.tried = False
        """Whether heads and stem were found right on real examples."""
        self.rescalable = True
        """Whether z may be shifted and scaled without a change of the output."""

    @property
    def n(self) -> int:
        """Latent dimensions; of a map, channels."""
        return self.latent_shape[0]

    @property
    def latent_layer(self) -> LatentLayer:
        """Where the latent dimensions are made and read."""
        layers = [self.encoder.get_submodule(name) for name in self.heads]
        stem = self.decoder.get_submodule(self.stem)
        assert all(isinstance(layer, CUTTABLE) for layer in [*layers, stem])
        return LatentLayer(layers[0], 0, layers[-1], 0 if len(layers) == 2 else self.n, stem)  # type: ignore[arg-type]

    def encode(self, x: Tensor) -> Posterior:
        """Return the posterior; the log standard deviation is bounded smoothly, so that it cannot overflow."""
        if not self.tried:
            self._try_out(x)
        mean, log_std = _halves(self.encoder(x))
        if mean.shape[1:] != self.latent_shape or log_std.shape != mean.shape:
            raise NarrowsError(
                f"the encoder gives means of shape {tuple(mean.shape[1:])} and deviations of {tuple(log_std.shape[1:])}"
                f", latent says {self.latent_shape}"
            )
        return Posterior(mean, LOG_STD_BOUND * torch.tanh(log_std / LOG_STD_BOUND))

    def decode(
        self, z: Tensor, gates: Tensor | None = None, record: Statistics | None = None, reuse: Statistics | None = None
    ) -> Tensor:
        """Decode z * gates; without `gates`, the hard ones. With `reuse`, BatchNorm's running averages stay."""
        gates = self.gates.hard() if gates is None else gates
        gated = z * gates.view(*gates.shape, *(1,) * (z.ndim - 2))
        with contextlib.nullcontext() if reuse is None else keep_running_averages(self.decoder):
            result: Tensor = self.decoder(gated)
        return result

    def reconstruct(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Decode the posterior's mean, or with a generator, a sample from the posterior."""
        posterior = self.encode(x)
        if generator is None:
            return self.decode(posterior.mean)
        return self.decode(posterior.draw(standard_normal(posterior.mean, generator)))

    def narrow(self, kept: Sequence[int] | None = None) -> "OwnVAE":
        """Return a copy with only the open dimensions (or the given ones); this model stays as it is."""
        kept = self.gates.kept() if kept is None else list(kept)
        if len(set(kept)) < len(kept) or any(j not in range(self.n) for j in kept):
            raise NarrowsError(f"kept must be different numbers from 0 to {self.n - 1}; it is {kept}")
        if not kept and len(self.latent_shape) > 1:
            raise NarrowsError("every channel is closed: no latent map is left to decode; choose a smaller tolerance")
        encoder, decoder = copy.deepcopy(self.encoder), copy.deepcopy(self.decoder)
        rows = list(kept) if len(self.heads) == 2 else [*kept, *(self.n + j for j in kept)]
        for name in self.heads:
            encoder = _replaced(encoder, name, with_outputs(_cuttable(encoder, "encoder", name), rows))
        decoder = _replaced(decoder, self.stem, with_inputs(_cuttable(decoder, "decoder", self.stem), kept))
        shape = (len(kept), *self.latent_shape[1:])
        smaller = OwnVAE(encoder, decoder, shape, self.heads, self.stem, [self.kept[j] for j in kept])
        smaller.gates.to(self.gates.logits)
        smaller.tried, smaller.rescalable = True, self.rescalable
        smaller.train(self.training)
        self._check_decoder(smaller, kept)
        return smaller

    def _check_sizes(self) -> None:
        sizes = [outputs(_cuttable(self.encoder, "encoder", name)) for name in self.heads]
        if sizes not in ([2 * self.n], [self.n, self.n]):
            raise NarrowsError(
                f"heads must be one layer with {2 * self.n} outputs (means, then log deviations) or two with {self.n} "
                f"each; {', '.join(self.heads)} have {sizes}"
            )
        if inputs(_cuttable(self.decoder, "decoder", self.stem)) != self.n:
            raise NarrowsError(f"the stem {self.stem!r} must read the {self.n} latent dimensions, and nothing else")

    @torch.no_grad()
    def _check_decoder(self, smaller: "OwnVAE", kept: list[int]) -> None:
        """Decode one random z both ways: a decoder that reads z in a second place is found here."""
        weight = self.latent_layer.stem.weight
        generator = torch.Generator(weight.device).manual_seed(0)
        z = torch.randn(2, *self.latent_shape, generator=generator, device=weight.device).to(weight.dtype)
        gates = weight.new_zeros(self.n)
        gates[kept] = 1
        with alone(self) as mine, alone(smaller) as others:
            same = alike(lambda: mine.decode(z, gates), lambda: others.decode(z[:, kept], weight.new_ones(len(kept))))
        if not same:
            raise NarrowsError(
                f"without the closed dimensions the decoder is another function: more than its layer {self.stem!r} "
                f"reads z; name the layer with stem=, or cut the decoder with narrows.cutting"
            )

    @torch.no_grad()
    def _try_out(self, x: Tensor) -> None:
        """Take a dimension away on trial: is it gone from means and deviations, and does the decoder do without it?

        Then shift and scale all of them on trial. Where that changes the output, with the heads in either order (a
        decoder may read z in a second place), `Fast` leaves the latent space's scale alone.
        """
        with alone(self) as mine:
            mine.tried = True
            few, kept = x[:2], list(range(1, self.n))
            if few.is_floating_point():  # data that were made under autocast
                few = few.to(mine.latent_layer.mean.weight.dtype)
            mine.encode(few)
            if kept or len(self.latent_shape) == 1:
                smaller = mine.narrow(kept)
                rest = alike(
                    lambda: [half[:, kept] for half in _halves(mine.encoder(few))],
                    lambda: list(_halves(smaller.encoder(few))),
                )
                if not rest:
                    raise NarrowsError(
                        f"without one dimension the encoder gives other means or deviations for the rest: they must be "
                        f"what {' and '.join(map(repr, self.heads))} makes, unchanged; name the layers with heads="
                    )
            for heads in (self.heads, self.heads[::-1]):
                mine.heads = heads
                self.rescalable = _can_rescale(mine, few)
                if self.rescalable:
                    self.heads = heads
                    break
        self.tried = True


Model = TypeVar("Model", bound=GatedVAE | OwnVAE)
"""What is trained: our networks or yours."""


def _halves(output: Any) -> tuple[Tensor, Tensor]:
    if isinstance(output, Tensor):
        output = output.chunk(2, dim=1)
    pair = tuple(output) if isinstance(output, list | tuple) else ()
    if len(pair) != 2 or not all(isinstance(half, Tensor) for half in pair):
        raise NarrowsError(
            f"the encoder must return the mean and the log standard deviation, two tensors, or one with both along "
            f"axis 1; it returns {type(output).__name__}{f' of {len(pair)}' if pair else ''}"
        )
    return pair[0], pair[1]


def _can_rescale(model: OwnVAE, x: Tensor) -> bool:
    """Tell whether shifting and scaling every dimension, and taking it back in the stem, leaves the output as it is."""
    ramp = torch.linspace(0.5, 2.0, model.n).to(model.latent_layer.stem.weight)
    with alone(model) as moved:
        moved.latent_layer.rescale(ramp - 1, ramp, ramp.log())
        return alike(lambda: model.decode(model.encode(x).mean), lambda: moved.decode(moved.encode(x).mean))


def _shape(latent: Any) -> tuple[int, ...]:
    sizes = tuple(latent) if isinstance(latent, Sequence) else (latent,)
    if not sizes or any(not isinstance(size, Integral) or int(size) < 0 for size in sizes):
        raise NarrowsError(f"latent must be a number of dimensions, or (channels, height, width); it is {latent!r:.80}")
    return tuple(int(size) for size in sizes)


def _layers(module: nn.Module) -> list[tuple[str, Cuttable]]:
    return [(name, layer) for name, layer in module.named_modules() if isinstance(layer, CUTTABLE)]


def _find_heads(encoder: nn.Module, n: int) -> list[str]:
    layers = _layers(encoder)
    if layers and outputs(layers[-1][1]) == 2 * n:
        return [layers[-1][0]]
    if len(layers) > 1 and all(outputs(layer) == n for _, layer in layers[-2:]):
        return [name for name, _ in layers[-2:]]
    raise NarrowsError(
        f"the encoder's last layer does not make {2 * n} outputs, nor its last two {n} each: name them with heads="
    )


def _find_stem(decoder: nn.Module, n: int) -> str:
    layers = _layers(decoder)
    if not layers or inputs(layers[0][1]) != n:
        raise NarrowsError(f"the decoder's first layer does not read {n} dimensions: name the one that does with stem=")
    return layers[0][0]


def _named(module: nn.Module, which: str, name: str) -> str:
    _cuttable(module, which, name)
    return name


def _cuttable(module: nn.Module, which: str, name: str) -> Cuttable:
    try:
        layer = module.get_submodule(name)
    except AttributeError:
        known = ", ".join(name for name, _ in _layers(module)) or "none"
        raise NarrowsError(f"the {which} has no layer {name!r}; those that can be cut: {known}") from None
    if not isinstance(layer, CUTTABLE):
        kind = type(layer).__name__
        raise NarrowsError(f"{which}.{name} is a {kind}; only Linear, Conv2d and ConvTranspose2d can be cut")
    return layer


def _replaced(module: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Return the module with one layer replaced; the layer itself where that is all it was."""
    if not name:
        return layer
    parent, _, child = name.rpartition(".")
    setattr(module.get_submodule(parent), child, layer)
    return module
