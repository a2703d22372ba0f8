"""Other networks with the same defaults: an MLP and a small ResNet on MNIST, tau = 10, n = 32.

python studies/networks.py FOLDER      two runs of five to ten minutes on one core

The ResNet is not part of narrows: its encoder and decoder are plain modules, and the loop is the one in the docstring
of narrows.recipes.fast.
"""

import sys
import time

import torch
import torch.nn.functional as F
from common import Row, Table, read_mnist, run
from torch import Tensor, nn

from narrows._util.allocator import keep_memory
from narrows.data import Batches, Data, split
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import Decoder, NetworkConfig, Scaling
from narrows.recipes.fast import Fast
from narrows.runs import certificate
from narrows.runs.certificate import Terms
from narrows.training.config import TrainConfig
from narrows.training.moments import moments
from narrows.training.validation import per_input


class Residual(nn.Module):
    """Two 3x3 convolutions around a shortcut, with group normalisation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(4, channels) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, h, w) -> the same."""
        y = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = conv(F.silu(norm(y)))
        return x + y


class ResNetEncoder(nn.Module):
    """28 -> 14 -> 7 pixels per side, with a residual block after each step."""

    def __init__(self, n: int, width: int = 16) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), Residual(width), nn.Conv2d(width, 2 * width, 4, 2, 1), Residual(2 * width)
        )
        self.head = nn.Linear(2 * width * 49, 2 * n)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 1, 28, 28) -> (batch, 2n)."""
        return self.head(F.silu(self.body(x)).flatten(1))


class ResNetDecoder(nn.Module):
    """The encoder mirrored, with transposed convolutions."""

    def __init__(self, n: int, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Linear(n, 2 * width * 49)
        self.body = nn.Sequential(
            Residual(2 * width),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            Residual(width),
            nn.SiLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def start_at(self, mean: Tensor) -> None:
        """Let the output start at the mean brightness."""
        last = self.body[-1]
        assert isinstance(last, nn.ConvTranspose2d)
        assert last.bias is not None
        nn.init.constant_(last.bias, mean.mean().item())

    def forward(self, z: Tensor) -> Tensor:
        """(batch, n) -> (batch, 1, 28, 28)."""
        return self.body(self.stem(z).view(len(z), -1, 7, 7))


def make_model(kind: str, n: int, data: Data) -> GatedVAE:
    """Build an untrained network of this kind for MNIST."""
    if kind == "resnet":
        model = GatedVAE(ResNetEncoder(n), ResNetDecoder(n), n, scaling=Scaling("sigmoid", (1, 28, 28)))
    else:
        model = gated_vae(NetworkConfig(kind, (1, 28, 28), n))  # type: ignore[arg-type]
    mean = moments(data.examples, split(data).train).mean
    assert isinstance(model.decoder, ResNetDecoder | Decoder)
    model.decoder.start_at(torch.logit(mean.clamp(0.01, 0.99)))
    return model


def train_in_loop(kind: str, n: int, tau: float, data: Data, seed: int = 0) -> Row:
    """Train a network with the fast recipe in a plain loop, and return its row."""
    torch.manual_seed(seed)
    splits = split(data)

    def draw(count: int, generator: torch.Generator) -> Tensor:
        index = torch.randint(len(splits.validation), (count,), generator=generator)
        return data.examples.batch(splits.validation[index.numpy()])

    model = make_model(kind, n, data)
    fast = Fast(model, tau, draw, (len(splits.validation), len(splits.test)), seed=seed)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3, fused=True)
    batches, generator, started = Batches(splits.train, 64, seed), torch.Generator().manual_seed(seed), time.time()
    while not fast.done:
        loss, _ = fast(data.examples.batch(batches.next()), fast.noise(64, generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        fast.after_step(optimiser)
    smaller = fast.monitor.averaged.narrow().eval()
    held = certificate.measure(*per_input(smaller, data.examples, splits.test), Terms())
    return {
        "dims": smaller.n,
        "met": Terms().is_kept(held, tau),
        "error": f"{held.error:.5g}",
        "upper": f"{held.high:.5g}",
        "batches": fast.controller.step,
        "seconds": round(time.time() - started),
    }


def main() -> None:
    """Train the networks whose rows are missing."""
    keep_memory()
    torch.set_num_threads(1)
    data = read_mnist(sys.argv[1:])
    table = Table("networks")

    def mlp() -> Row:
        row = run(TrainConfig(tau=10.0, n=32, network="mlp", threads=1, device="cpu"), data)
        return {name: row[name] for name in ("dims", "met", "error", "upper", "batches", "seconds")}

    table.run(mlp, network="mlp")
    table.run(lambda: train_in_loop("resnet", 32, 10.0, data), network="resnet")


if __name__ == "__main__":
    main()
