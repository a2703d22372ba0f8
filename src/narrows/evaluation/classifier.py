"""A small convolutional classifier, trained on the set at hand, whose last hidden layer is what images are compared by.

Its features have to tell apart what matters in these images, so it is trained on all labels that the set has (digits,
classes, every factor of dSprites), with one softmax a label over the same 64 features. Nothing is downloaded: a
network trained on photographs says little about sprites.

    images     scaled to at most 64 pixels a side, minus their mean, by their deviation
    stages     3x3 convolution with stride 2, BatchNorm, leaky ReLU, until 4 pixels a side are left; 16, 32, 64 channels
    features   a linear layer with 64 outputs, leaky ReLU
    training   Adam, 2e-3 falling to 0, batches of 128, 2,000 of them or 20 passes, whichever is less

It is trained once for each set, split and seed, and kept in the cache folder. Without labels, the same network with its
initial weights is used: random features see differences that a narrowed model makes (blur, missing parts, wrong
contrast), though not what they mean.
"""

import contextlib
import hashlib
import json
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows.data import Batches, Data, Factor, Splits, cache_folder, thinned
from narrows.data.progress import Progress, silent
from narrows.files import write_atomic

WIDTH = 64
"""Features."""
LONGEST = 64
"""Pixels a side that are looked at."""
BATCHES, PASSES, BATCH, RATE = 2_000, 20, 128, 2e-3
MEASURED = 1_000
"""Images from which mean and deviation of the pixels are taken, at most."""
FORMAT = "narrows.classifier.1"


class FeatureNetwork(nn.Module):
    """Images to 64 features, and for each label to the logits of its values."""

    def __init__(self, shape: tuple[int, ...], labels: tuple[int, ...] = ()) -> None:
        super().__init__()
        channels, height, width = shape
        shrink = max(1.0, max(height, width) / LONGEST)
        self.size = (max(1, round(height / shrink)), max(1, round(width / shrink)))
        self.shift: Tensor
        self.unit: Tensor
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("unit", torch.ones(()))
        (height, width), stages, outputs = self.size, [], 16
        while max(height, width) > 4:
            stages += [nn.Conv2d(channels, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.1)]
            channels, outputs = outputs, min(2 * outputs, 64)
            height, width = (height + 1) // 2, (width + 1) // 2
        self.body = nn.Sequential(*stages, nn.Flatten(), nn.Linear(channels * height * width, WIDTH), nn.LeakyReLU(0.1))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, size) for size in labels)
        for layer in self.body:
            if isinstance(layer, nn.Conv2d | nn.Linear):  # so that untrained layers neither shrink nor grow what passes
                nn.init.kaiming_normal_(layer.weight, 0.1)
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, C, H, W) -> features, (batch, 64)."""
        if x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="area")
        return self.body((x - self.shift) / self.unit)


def untrained(data: Data, splits: Splits, seed: int, labels: tuple[int, ...] = ()) -> FeatureNetwork:
    """Return the network with initial weights from the seed, for pixels like those of the training split."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = FeatureNetwork(data.examples.shape, labels)
    index = thinned(splits.train, MEASURED)
    mean, square = torch.zeros(2, dtype=torch.float64)
    for start in range(0, len(index), BATCH):
        pixels = data.examples.batch(index[start : start + BATCH]).double()
        mean += pixels.mean() * len(pixels) / len(index)
        square += pixels.square().mean() * len(pixels) / len(index)
    spread = (square - mean.square()).clamp(min=0).sqrt()
    network.shift.copy_(mean)
    network.unit.copy_(torch.where(spread > 0, spread, 1.0))
    return network.eval()


def labels_of(data: Data) -> list[tuple[int, Factor]]:
    """Return the labels that say something, with their places: those that take two values or more."""
    factors = () if data.factors is None else data.factors.factors
    return [(place, factor) for place, factor in enumerate(factors) if factor.size > 1]


def trained_classifier(
    data: Data, splits: Splits, mark: str, seed: int = 0, progress: Progress = silent
) -> tuple[FeatureNetwork, dict[str, float]]:
    """Return the classifier of a labelled set and, for each label, the share of validation images it gets right.

    `mark` tells the data and their split from others. The cached one is returned if there is one; a damaged file is
    made anew, and where none can be written the classifier is just not kept.
    """
    assert data.factors is not None
    some = thinned(splits.train, MEASURED)
    settings = repr((FORMAT, mark, data.factors.names, data.factors.sizes, seed, WIDTH, BATCHES, PASSES, BATCH, RATE))
    key = hashlib.sha256(settings.encode() + data.factors.of(some).tobytes()).hexdigest()[:24]
    path = cache_folder() / f"classifier-{key}.safetensors"
    sizes = tuple(factor.size for _, factor in labels_of(data))
    network = untrained(data, splits, seed, sizes)
    accuracy = _read(path, network)
    if accuracy is None:
        _train(network, data, splits, seed, progress)
        accuracy = _accuracy(network, data, splits.validation)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            about = json.dumps({"format": FORMAT, "data": data.name, "accuracy": accuracy})
            write_atomic(path, safetensors.torch.save(network.state_dict(), {"narrows": about}))
    return network, accuracy


def _read(path: Path, network: FeatureNetwork) -> dict[str, float] | None:
    """Load a cached classifier; None where it is missing or damaged."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["narrows"])
            network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
        accuracy = {str(name): float(share) for name, share in about["accuracy"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, safetensors.SafetensorError):
        return None
    return accuracy


def _train(network: FeatureNetwork, data: Data, splits: Splits, seed: int, progress: Progress) -> None:
    assert data.factors is not None
    size = min(BATCH, len(splits.train))
    stream = Batches(splits.train, size, seed)
    steps = min(BATCHES, PASSES * stream.per_epoch)
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    places = [place for place, _ in labels_of(data)]
    network.train()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - step / steps)
        index = stream.next()
        labels = torch.from_numpy(data.factors.of(index)[:, places])
        features = network(data.examples.batch(index))
        losses = [F.cross_entropy(head(features), labels[:, j]) for j, head in enumerate(network.heads)]
        optimiser.zero_grad()
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        progress("training the classifier", step + 1, steps)
    network.eval()


@torch.no_grad()
def _accuracy(network: FeatureNetwork, data: Data, index: np.ndarray) -> dict[str, float]:
    assert data.factors is not None
    right = torch.zeros(len(network.heads), dtype=torch.float64)
    places = [place for place, _ in labels_of(data)]
    for start in range(0, len(index), BATCH):
        here = index[start : start + BATCH]
        features = network(data.examples.batch(here))
        labels = torch.from_numpy(data.factors.of(here)[:, places])
        guesses = torch.stack([head(features).argmax(1) for head in network.heads], dim=1)
        right += (guesses == labels).double().sum(0)
    names = [factor.name for _, factor in labels_of(data)]
    return dict(zip(names, (right / len(index)).tolist(), strict=True))
