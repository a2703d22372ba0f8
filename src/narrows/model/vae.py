"""The models: a plain VAE, the same with one gate per latent dimension, and the way from the second to the first.

    encode    x -> mu, log sigma      log sigma is bounded smoothly, so that its exponential cannot overflow (D2)
    decode    z -> x'                 `GatedVAE` multiplies z by its gates first
    narrow    the closed dimensions are removed from both networks; the output stays exactly the same

Any two modules make a model, for latent vectors or latent maps:

    gated_vae(NetworkConfig("conv", (1, 28, 28), n=32))            # built-in networks
    GatedVAE(encoder, decoder, latent=16)                          # your networks; z is (batch, 16)
    GatedVAE(encoder, decoder, latent=(16, 7, 7))                  # z is (batch, 16, 7, 7), one gate per channel

The contract: `encoder(x)` returns the mean and the log standard deviation, as two tensors or as one tensor with both
along axis 1; `decoder(z)` returns the reconstruction, in any form that the error function accepts.

Narrowing needs two places: the layers that make the latent dimensions (`heads`: one layer, or two where means and
deviations have a layer each) and the layer that reads them (`stem`). All must be Linear, Conv2d or ConvTranspose2d.
They are found by size, as the encoder's last and the decoder's first layer, and can be named where that is wrong. The
first batch shows whether it is right (checks.py), so no training ends with a model that cannot be narrowed.
"""

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from narrows._util.checks import COUNT, Rule, argument, several
from narrows._util.errors import NarrowsError, setting
from narrows._util.memory import within_memory
from narrows._util.text import brief
from narrows.gates.l0 import GENERATOR, L0Gates
from narrows.model import checks
from narrows.networks import Decoder, NetworkConfig, Scaling, build
from narrows.networks.batches import in_average_batch
from narrows.networks.batchnorm import Statistics, keep_running_averages
from narrows.networks.latent_layer import LatentLayer
from narrows.networks.pruning import with_inputs, with_outputs

LOG_STD_BOUND = 8.0


class Posterior(NamedTuple):
    """The posterior q(z|x) = N(mean, exp(log_std)^2); both tensors have the shape of z, `(batch, *latent)`."""

    mean: Tensor
    log_std: Tensor

    def draw(self, noise: Tensor) -> Tensor:
        """Return z = mu + sigma eps (line 11), with eps = `noise`, `(batch, *latent)`."""
        return self.mean + torch.exp(self.log_std) * noise


class VAE(nn.Module):
    """A variational autoencoder around any encoder and decoder, for latent vectors or latent maps.

    Arguments:
        encoder: Returns the mean and the log standard deviation of z, as two tensors, `(batch, *latent)` each, or as
            one tensor with both along axis 1.
        decoder: Maps z, `(batch, *latent)`, to the reconstruction.
        latent: The number of latent dimensions n, or (channels, height, width) for latent maps.
        heads: Names of the encoder's layers that make the latent dimensions: one layer with 2n outputs, or two with n
            each. By default they are found by size.
        stem: Name of the decoder's layer that reads z. By default it is found by size.
        scaling: The layer between the user's units and the networks'; by default there is none.
        network: How built-in networks are built again; None for the user's own.

    Raises:
        NarrowsError: If the layers that make or read the latent dimensions cannot be found, or have other sizes.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        latent: int | Sequence[int],
        heads: Sequence[str] = (),
        stem: str = "",
        *,
        scaling: Scaling | None = None,
        network: NetworkConfig | None = None,
    ) -> None:
        super().__init__()
        self.latent_shape = checks.latent_shape(latent)
        """Shape of one example's z: (n,), or (channels, height, width)."""
        checks.check_parts(heads, stem, scaling, network, self.n)
        self.heads, self.stem = checks.find_heads(encoder, self.n, heads), checks.find_stem(decoder, self.n, stem)
        self.encoder, self.decoder = encoder, decoder
        self.scaling = Scaling() if scaling is None else scaling
        self.kept = list(range(self.n))
        """The dimensions of the model before narrowing that these are."""
        self.network = network

    @property
    def n(self) -> int:
        """Number of latent dimensions, or of channels of a latent map."""
        return self.latent_shape[0]

    @property
    def latent_layer(self) -> LatentLayer:
        """The layers that make and read the latent dimensions."""
        heads = [checks.prunable(self.encoder, "encoder", name) for name in self.heads]
        stem = checks.prunable(self.decoder, "decoder", self.stem)
        return LatentLayer(heads[0], heads[-1], 0 if len(heads) == 2 else self.n, stem)

    def encode(self, x: Tensor) -> Posterior:
        """Return the posterior of x.

        Arguments:
            x: Examples, `(batch, *shape)`.

        Returns:
            Mean and log standard deviation, `(batch, *latent)` each.

        Raises:
            NarrowsError: If the encoder returns anything else.
        """
        try:
            scaled = self.scaling.inward(x, self.latent_layer.stem.weight.dtype)
            output = self.encoder(scaled)
        except Exception:
            checks.check_examples(self, x)
            raise
        mean, log_std = checks.split_output(output, self.latent_shape)
        return Posterior(mean, LOG_STD_BOUND * torch.tanh(log_std / LOG_STD_BOUND))

    def decode(self, z: Tensor) -> Tensor:
        """Return the reconstruction of z, `(batch, *latent)`: `(batch, *shape)`, or whatever the decoder returns.

        A model that was fitted with batches returns an `InBatches`.
        """
        try:
            decoded: Tensor = self.scaling.outward(self.decoder(z))
            return decoded
        except Exception:
            checks.check_codes(self, z)
            raise

    def reconstruct(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Decode the posterior of x.

        Arguments:
            x: Examples, `(batch, *shape)`.
            generator: The source of randomness for a sample of the posterior; without it, its mean is decoded.

        Returns:
            Reconstructions, `(batch, *shape)`; those of counts have the totals of the rows of x.
        """
        argument("generator", generator, GENERATOR, or_none=True)
        posterior = self.encode(x)
        z = posterior.mean if generator is None else posterior.draw(standard_normal(posterior.mean, generator))
        return self.scaling.as_large_as(self.decode(z), x)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Return `count` new examples, `(count, *shape)`, drawn from N(0, 1); counts in an average batch."""
        count = argument("count", count, COUNT)
        argument("generator", generator, GENERATOR, or_none=True)
        with within_memory(f"{brief(count)} examples", "draw fewer at a time"):
            like = self.latent_layer.stem.weight.new_empty(count, *self.latent_shape)
            examples: Tensor = in_average_batch(self.decode(standard_normal(like, generator)))
            return examples

    def narrow(self, kept: Sequence[int]) -> "VAE":
        """Return a copy that has only some of the dimensions.

        Arguments:
            kept: The dimensions of the copy, in their new order.

        Returns:
            A VAE whose output is that of this one with the other dimensions at 0; this model stays as it is.

        Raises:
            NarrowsError: If `kept` is not a choice of dimensions, or the networks read z anywhere else.
        """
        here = Rule("", lambda j: type(j) is int and 0 <= j < self.n)
        words = f"different numbers from 0 to {self.n - 1}"
        given, kept = kept, several("kept", kept, here, words)
        if len(set(kept)) < len(kept):
            raise NarrowsError(f"{setting('kept')} must be {words}; it is {brief(given)}")
        if not kept and len(self.latent_shape) > 1:
            raise NarrowsError("every channel is closed: no latent map is left to decode; choose a smaller tolerance")
        encoder, decoder = copy.deepcopy(self.encoder), copy.deepcopy(self.decoder)
        rows = kept if len(self.heads) == 2 else [*kept, *(self.n + j for j in kept)]
        for name in self.heads:
            encoder = _replaced(encoder, name, with_outputs(checks.prunable(encoder, "encoder", name), rows))
        decoder = _replaced(decoder, self.stem, with_inputs(checks.prunable(decoder, "decoder", self.stem), kept))
        latent, scaling = (len(kept), *self.latent_shape[1:]), copy.deepcopy(self.scaling)
        network = replace(self.network, n=len(kept)) if self.network else None
        smaller = VAE(encoder, decoder, latent, self.heads, self.stem, scaling=scaling, network=network)
        smaller.train(self.training)
        smaller.kept = [self.kept[j] for j in kept]
        if self.network is None:
            checks.check_narrowed(self, smaller, kept)
        return smaller


class GatedVAE(VAE):
    """A VAE with one gate per latent dimension; outside training, gates are hard: 0 or 1.

    Arguments:
        encoder: Returns the mean and the log standard deviation of z, as two tensors, `(batch, *latent)` each, or as
            one tensor with both along axis 1.
        decoder: Maps z, `(batch, *latent)`, to the reconstruction.
        latent: The number of latent dimensions n, or (channels, height, width) for latent maps, which have one gate per
            channel.
        heads: Names of the encoder's layers that make the latent dimensions: one layer with 2n outputs, or two with n
            each. By default they are found by size.
        stem: Name of the decoder's layer that reads z. By default it is found by size.
        scaling: The layer between the user's units and the networks'; by default there is none.
        network: How built-in networks are built again; None for the user's own, which are checked on the first batch.

    Raises:
        NarrowsError: If the layers that make or read the latent dimensions cannot be found, or have other sizes.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        latent: int | Sequence[int],
        heads: Sequence[str] = (),
        stem: str = "",
        *,
        scaling: Scaling | None = None,
        network: NetworkConfig | None = None,
    ) -> None:
        super().__init__(encoder, decoder, latent, heads, stem, scaling=scaling, network=network)
        if self.n == 0:
            raise NarrowsError("a model without latent dimensions has nothing to gate; latent must be at least 1")
        self.gates = L0Gates(self.n)
        self.checked = network is not None
        """Whether the networks were tried out on real examples; built-in ones need not be."""
        self.mixable = True
        """Whether the latent layer can take other coordinates of z without a change of the output."""
        self.independent_rows = not any(isinstance(module, _BatchNorm) for module in decoder.modules())
        """Whether an example is decoded the same whatever else is in its batch."""

    def check(self, x: Tensor) -> None:
        """Try the networks out on the first examples of x, `(batch, *shape)`; `encode` does so with the first batch.

        Raises:
            NarrowsError: If they do not follow the contract, or a dimension cannot be removed from them.
        """
        heads = checks.check_networks(self, x)
        self.checked, self.mixable, self.heads = True, heads is not None, heads or self.heads

    def encode(self, x: Tensor) -> Posterior:
        """Return the posterior of x, as `VAE.encode` does; the first batch also checks the networks."""
        if not self.checked:
            self.check(x)
        return super().encode(x)

    def decode(
        self, z: Tensor, gates: Tensor | None = None, record: Statistics | None = None, reuse: Statistics | None = None
    ) -> Tensor:
        """Decode z * gates.

        Arguments:
            z: Latent samples, `(batch, *latent)`.
            gates: Gates as 0. and 1., (batch, n), (1, n) or (n,); by default the hard ones.
            record: A list to which built-in decoders append the batch statistics they used.
            reuse: Statistics that an earlier pass recorded. With them no running average moves: it is the same batch.

        Returns:
            The reconstruction, `(batch, *shape)`, or whatever the decoder returns.
        """
        gates = self.gates.hard() if gates is None else gates
        try:
            gated = z * gates.view(*gates.shape, *(1,) * (z.ndim - 2))
        except Exception:
            checks.check_codes(self, z)
            raise
        with contextlib.nullcontext() if reuse is None else keep_running_averages(self.decoder):
            shared = (record, reuse) if isinstance(self.decoder, Decoder) else ()
            decoded: Tensor = self.scaling.outward(self.decoder(gated, *shared))
            return decoded

    def narrow(self, kept: Sequence[int] | None = None) -> VAE:
        """Return a copy without gates that has only the open dimensions, or those of `kept` (see `VAE.narrow`)."""
        return super().narrow(self.gates.kept() if kept is None else kept)


def standard_normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw N(0, 1) with the shape, type and device of `like`."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def gated_vae(network: NetworkConfig) -> GatedVAE:
    """Build an untrained GatedVAE around built-in networks.

    Arguments:
        network: The kind and size of the networks.

    Returns:
        The model; its initial values come from torch's global generator.

    Raises:
        NarrowsError: The shape does not suit the kind of network, or the networks do not fit into memory.
    """
    encoder, decoder, scaling = build(network)
    return GatedVAE(encoder, decoder, network.n, scaling=scaling, network=network)


def _replaced(module: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Return the module with one layer replaced; the new layer itself if the module was that layer."""
    if not name:
        return layer
    parent, _, child = name.rpartition(".")
    setattr(module.get_submodule(parent), child, layer)
    return module
