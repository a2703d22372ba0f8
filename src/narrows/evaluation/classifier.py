"""A small convolutional classifier, trained on the set itself; its last hidden layer gives the features of an image.

The features must distinguish what matters in these images, so the network is trained on all labels of the set (digits,
classes, every factor of dSprites), with one softmax per label over the same 64 features. Nothing is downloaded: a
network trained on photographs says little about sprites.

    images     scaled to at most 64 pixels per side, standardised
    stages     3x3 convolution with stride 2, BatchNorm, leaky ReLU, until 4 pixels per side remain; 16, 32, 64 channels
    features   a linear layer with 64 outputs, leaky ReLU
    training   Adam, 2e-3 falling to 0, batches of 128, for 2,000 batches or 20 passes, whichever is less

It is trained once for each set, split and seed, and kept in the cache folder. Without labels, the same network is used
with its initial weights: random features respond to what narrowing damages (blur, missing parts, wrong contrast),
though they carry no meaning.
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

from narrows._util.files import write_atomic
from narrows._util.progress import Progress, silent
from narrows.data import Batches, Data, Factor, Splits, cache_folder, thinned
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments

WIDTH = 64
"""The number of features."""
LONGEST = 64
"""Pixels per side, at most; larger images are scaled down."""
BATCHES, PASSES, BATCH, RATE = 2_000, 20, 128, 2e-3
MEASURED = 1_000
"""Images from which the mean and standard deviation of the pixels are measured, at most."""
FORMAT = "narrows.evaluation.classifier.1"


class FeatureNetwork(nn.Module):
    """A network from images to 64 features, with one linear head per label for the logits of its values."""

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
            if isinstance(layer, nn.Conv2d | nn.Linear):  # untrained layers then keep the scale of their inputs
                nn.init.kaiming_normal_(layer.weight, 0.1)
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, C, H, W) -> features, (batch, 64)."""
        if x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="area")
        return self.body((x - self.shift) / self.unit)


def untrained(data: Data, splits: Splits, seed: int, labels: tuple[int, ...] = ()) -> FeatureNetwork:
    """Return the network with initial weights from the seed, standardising pixels like those of the training split."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = FeatureNetwork(data.examples.shape, labels)
    batches = in_batches(data.examples, thinned(splits.train, MEASURED), BATCH)
    pixels = Moments.of(x.flatten() for _, x in batches)
    network.shift.fill_(float(pixels.mean))
    network.unit.fill_(float(pixels.std) or 1.0)
    return network.eval()


def labels_of(data: Data) -> list[tuple[int, Factor]]:
    """Return the labels with at least two values, each with its column in `data.factors`."""
    factors = () if data.factors is None else data.factors.factors
    return [(column, factor) for column, factor in enumerate(factors) if factor.size > 1]


def trained_classifier(
    data: Data, splits: Splits, key: str, seed: int = 0, progress: Progress = silent
) -> tuple[FeatureNetwork, dict[str, float]]:
    """Return the classifier of a labelled set and, for each label, its accuracy on the validation split.

    `key` identifies the data and their split in the cache. A cached classifier is returned if there is one; a damaged
    file is replaced; where the cache cannot be written, the classifier is not kept.
    """
    assert data.factors is not None
    some = thinned(splits.train, MEASURED)
    settings = repr((FORMAT, key, data.factors.names, data.factors.sizes, seed, WIDTH, BATCHES, PASSES, BATCH, RATE))
    digest = hashlib.sha256(settings.encode() + data.factors.of(some).tobytes()).hexdigest()[:24]
    path = cache_folder() / f"classifier-{digest}.safetensors"
    network = untrained(data, splits, seed, tuple(factor.size for _, factor in labels_of(data)))
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
    """Load a cached classifier and return its accuracy; return None if the file is missing or damaged."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["narrows"])
            network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
        return {str(name): float(share) for name, share in about["accuracy"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, safetensors.SafetensorError):
        return None


def _train(network: FeatureNetwork, data: Data, splits: Splits, seed: int, progress: Progress) -> None:
    stream = Batches(splits.train, min(BATCH, len(splits.train)), seed)
    steps = min(BATCHES, PASSES * stream.per_epoch)
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    network.train()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - step / steps)
        index = stream.next()
        labels, features = _labels(data, index), network(data.examples.batch(index))
        losses = [F.cross_entropy(head(features), labels[:, j]) for j, head in enumerate(network.heads)]
        optimiser.zero_grad()
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        progress("training the classifier", step + 1, steps)
    network.eval()


@torch.no_grad()
def _accuracy(network: FeatureNetwork, data: Data, index: np.ndarray) -> dict[str, float]:
    right = Moments()
    for here, x in in_batches(data.examples, index, BATCH):
        features = network(x)
        guesses = torch.stack([head(features).argmax(1) for head in network.heads], dim=1)
        right.add(guesses == _labels(data, index[here]))
    return dict(zip((factor.name for _, factor in labels_of(data)), right.mean.tolist(), strict=True))


def _labels(data: Data, index: np.ndarray) -> Tensor:
    """Return the labels of the examples at `index`, (len(index), labels)."""
    assert data.factors is not None
    return torch.from_numpy(data.factors.of(index)[:, [column for column, _ in labels_of(data)]])
