"""4. The models: a plain VAE, the same with gates, and the way from the second to the first.

encode    x -> mu, log sigma           log sigma is bounded smoothly, so that its exponential cannot overflow (D2)
decode    z -> x'
GatedVAE multiplies z by its gates before decoding; `narrow()` cuts the closed dimensions out and returns a plain,
smaller VAE with exactly the same output. `save_model` and `load_model` keep a VAE in one safetensors file together
with a description in JSON: tensors and text, so loading runs no code.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from narrows.cutting import LatentLayer
from narrows.descriptions import network_of
from narrows.errors import NarrowsError
from narrows.files import write_atomic
from narrows.gates import L0Gates
from narrows.layers import Statistics
from narrows.networks import Decoder, Encoder, NetworkConfig, Scaling, build

LOG_STD_BOUND = 8.0
FORMAT = "narrows.vae.2"
FLOATS = {"F64", "F32", "F16", "BF16"}
"""What weights may be stored as, in safetensors' words."""


class Posterior(NamedTuple):
    """q(z|x) = N(mean, exp(log_std)^2): both (batch, n)."""

    mean: Tensor
    log_std: Tensor

    def draw(self, noise: Tensor) -> Tensor:
        """z = mu + sigma eps (line 11)."""
        return self.mean + torch.exp(self.log_std) * noise


class VAE(nn.Module):
    """A plain variational autoencoder.

    `kept` says which dimensions of the original model its own are; `network` how its networks are built again,
    None for networks that are not ours.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        scaling: Scaling,
        kept: Sequence[int] | None = None,
        network: NetworkConfig | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.scaling = encoder, decoder, scaling
        self.network = network
        self.kept = list(range(self.n)) if kept is None else list(kept)

    @property
    def n(self) -> int:
        """Latent dimensions."""
        return self.decoder.stem.in_features

    def encode(self, x: Tensor) -> Posterior:
        """`(batch, *shape)` -> the posterior's mean and log standard deviation, (batch, n) each."""
        inner = self.scaling.inward(x).to(self.decoder.stem.weight.dtype)
        mean, raw = self.encoder(inner).chunk(2, dim=1)
        return Posterior(mean, LOG_STD_BOUND * torch.tanh(raw / LOG_STD_BOUND))

    def decode(self, z: Tensor) -> Tensor:
        """(batch, n) -> `(batch, *shape)`."""
        return self.scaling.outward(self.decoder(z))

    def reconstruct(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Decode the posterior's mean, or with a generator, a sample from the posterior."""
        posterior = self.encode(x)
        if generator is None:
            return self.decode(posterior.mean)
        return self.decode(posterior.draw(standard_normal(posterior.mean, generator)))

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Decode `count` draws from the prior N(0, 1)."""
        like = self.decoder.stem.bias.new_empty(count, self.n)
        return self.decode(standard_normal(like, generator))

    def reordered(self, order: Sequence[int]) -> "VAE":
        """Return the same model with its dimensions in another order."""
        encoder, decoder = self.encoder.narrowed(order), self.decoder.narrowed(order)
        kept = [self.kept[j] for j in order]
        return VAE(encoder, decoder, self.scaling, kept, self.network).train(self.training)


class GatedVAE(VAE):
    """A VAE with one gate a latent dimension. Outside training its gates are hard: 0 or 1."""

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        scaling: Scaling,
        gates: L0Gates,
        network: NetworkConfig | None = None,
    ) -> None:
        super().__init__(encoder, decoder, scaling, network=network)
        self.gates = gates

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """One example's z."""
        return (self.n,)

    @property
    def rows_alone(self) -> bool:
        """Whether a second pass decodes an example the same whatever else is in its batch: see `reuse`."""
        return True

    @property
    def rescalable(self) -> bool:
        """Whether z may be shifted and scaled without a change of the output."""
        return True

    @property
    def latent_layer(self) -> LatentLayer:
        """Where the latent dimensions are made and read."""
        return LatentLayer(self.encoder.head, 0, self.encoder.head, self.n, self.decoder.stem)

    def decode(
        self,
        z: Tensor,
        gates: Tensor | None = None,
        record: Statistics | None = None,
        reuse: Statistics | None = None,
    ) -> Tensor:
        """Decode z * gates; without `gates`, the hard ones."""
        gates = self.gates.hard() if gates is None else gates
        return self.scaling.outward(self.decoder(z * gates, record, reuse))

    def narrow(self, kept: Sequence[int] | None = None) -> VAE:
        """Return a new VAE with only the open dimensions (or the given ones); this model stays as it is."""
        kept = self.gates.kept() if kept is None else sorted(kept)
        network = replace(self.network, n=len(kept)) if self.network else None
        encoder, decoder = self.encoder.narrowed(kept), self.decoder.narrowed(kept)
        return VAE(encoder, decoder, copy.deepcopy(self.scaling), kept, network).train(self.training)


def standard_normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw N(0, 1) with the shape, type and device of `like`."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def gated_vae(network: NetworkConfig) -> GatedVAE:
    """Build an untrained GatedVAE; its initial values come from torch's global generator."""
    return GatedVAE(*build(network), L0Gates(network.n), network)


def save_model(model: VAE, path: Path, about: dict[str, Any] | None = None) -> None:
    """Write the model and its description into one safetensors file, whole or not at all."""
    assert model.network is not None, "only networks built from a NetworkConfig can be described"
    description = {"format": FORMAT, "network": asdict(model.network), "kept": model.kept, **(about or {})}
    tensors = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
    write_atomic(path, safetensors.torch.save(tensors, {"narrows": json.dumps(description)}))


def read_description(path: Path) -> dict[str, Any]:
    """Return the JSON description inside a saved model: its network, kept dimensions, tau, and so on."""
    if Path(path).is_dir():
        raise NarrowsError(f"{path} is a folder; give the file in it: {Path(path) / 'model.safetensors'}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {}).get("narrows", "null"))
    except (OSError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise NarrowsError(f"cannot read the model {path}: {error}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise NarrowsError(f"{path} is not a model of this version of narrows (expected format {FORMAT})")
    return description


def load_model(path: Path | str) -> VAE:
    """Load a saved model, ready for inference on the CPU.

    Whatever the file says, no code is run and no more memory is taken than its own tensors need.
    """
    path = Path(path)
    description = read_description(path)
    try:
        network = network_of(description)
    except NarrowsError as error:
        raise NarrowsError(f"the model {path} has a damaged description: {error}") from None
    with torch.random.fork_rng(devices=[]):  # building draws initial values; the caller's generator stays as it is
        try:
            with torch.device("meta"):
                expected = {name: list(t.shape) for name, t in _untrained(network).state_dict().items()}
        except (RuntimeError, OverflowError, TypeError):  # sizes beyond any address
            expected = None
        if _stored_shapes(path) != expected:
            raise NarrowsError(f"the model {path} does not fit its own description: it is damaged")
        model = _untrained(network)
    model.kept = description["kept"]
    tensors = safetensors.torch.load_file(path)
    model.scaling.to(tensors["scaling.shift"].dtype)  # columns with units of their own are in double precision
    model.load_state_dict(tensors)
    return model.eval()


def _untrained(network: NetworkConfig) -> VAE:
    encoder, decoder, scaling = build(replace(network, n=max(network.n, 1)))
    if network.n == 0:
        encoder, decoder = encoder.narrowed([]), decoder.narrowed([])
    return VAE(encoder, decoder, scaling, network=network)


def _stored_shapes(path: Path) -> dict[str, list[int]]:
    """Return the tensors' shapes by name; nothing but the header is read."""
    with safetensors.safe_open(path, framework="pt") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        strange = {part.get_dtype() for part in parts.values()} - FLOATS
        if strange:
            raise NarrowsError(f"the model {path} has weights of type {min(strange)}; they must be floats")
        return {name: part.get_shape() for name, part in parts.items()}
