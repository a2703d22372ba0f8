"""Pruning by KL: how many dimensions of a plain VAE stay active depends on the weight of its error term.

python studies/pruning.py      about five minutes on one core

The points are those of known_answers.py, d = 2, 3, 5, 8, seed 0. A plain VAE with 16 latent dimensions and two hidden
layers of 256 units is trained with a fixed weight, as a beta-VAE or a VAE with a fixed noise variance is:

    loss = weight * E / variance + sum over all dimensions of the KL

for 5,000 batches of 64, Adam at 1e-3, with the learning rate falling to zero over the last fifth. Then the active units
are counted on held-out points in two usual ways: the variance of the posterior mean is above 0.01, or the KL is above
0.1 nats. `explained` is 1 - E / variance, with z sampled. Writes studies/results/pruning.csv.
"""

from itertools import product

import torch
from common import Row, Table
from torch import Tensor, nn

from narrows._util.allocator import keep_memory
from narrows.data.synthetic import curved_manifold

N, BATCHES, BATCH = 16, 5_000, 64
WEIGHTS = (10, 100, 1_000, 10_000)


def layers(inputs: int, outputs: int) -> nn.Sequential:
    """Return two hidden layers of 256 units between `inputs` and `outputs` values."""
    return nn.Sequential(nn.Linear(inputs, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, outputs))


def kl_terms(mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the KL of N(mean, std^2) from N(0, 1), (rows, N)."""
    return 0.5 * ((2 * log_std).exp() + mean.square() - 1) - log_std


def train(d: int, weight: float, seed: int) -> Row:
    """Train one plain VAE and count its active units on held-out points."""
    torch.manual_seed(seed)
    x = torch.from_numpy(curved_manifold(20_000, d=d, ambient=50, seed=seed))
    x = (x - x.mean(0)) / x.std()
    points, held_out = x[:16_000], x[16_000:]
    variance = points.var(0).sum()
    encoder, decoder = layers(50, 2 * N), layers(N, 50)
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3, fused=True)
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, 5 * (1 - step / BATCHES)))

    def terms(batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_std = encoder(batch).chunk(2, 1)
        again = decoder(mean + log_std.exp() * torch.randn_like(mean))
        return (again - batch).square().sum(1).mean() / variance, kl_terms(mean, log_std), mean

    for _ in range(BATCHES):
        error, kl, _ = terms(points[torch.randint(len(points), (BATCH,))])
        loss = weight * error + kl.sum(1).mean()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        falling.step()
    with torch.no_grad():
        error, kl, mean = terms(held_out)
    return {
        "active": int((mean.var(0) > 0.01).sum()),
        "kl_above_0.1": int((kl.mean(0) > 0.1).sum()),
        "explained": f"{1 - error.item():.4f}",
        "kl": f"{kl.sum(1).mean().item():.4g}",
    }


def main() -> None:
    """Run what is missing."""
    keep_memory()
    torch.set_num_threads(1)
    table = Table("pruning")
    for d, weight in product((2, 3, 5, 8), WEIGHTS):
        table.run(lambda d=d, weight=weight: train(d, weight, 0), d=d, weight=weight, seed=0)  # type: ignore[misc]


if __name__ == "__main__":
    main()
