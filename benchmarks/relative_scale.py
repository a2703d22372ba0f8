"""How the relative constraint's scale decides when gates close (decision D12 in docs/algorithm.md).

    python benchmarks/relative_scale.py

The curved manifold (d = 3 in R^50, n = 10, tau = 4% of the variance), 12,000 batches a run, one thread; in all runs the
multiplier's upper bound times the scale is the same. Prints, for each scale and seeds 0, 1, 2, the batch from which 3
gates were open for good, and lambda' times scale at the end.
"""

import torch

from narrows.constraint import Geco, GecoConfig
from narrows.data.synthetic import curved_manifold
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise

STEPS, BATCH, N, D = 12_000, 64, 10, 3


def run(scale: float, seed: int) -> tuple[int | None, float]:
    """Train once; return the batch from which 3 gates were open, None if it did not end so, and lambda' * scale."""
    x = torch.from_numpy(curved_manifold(20_000, D, seed=seed))
    variance = x.var(0, correction=0)
    torch.manual_seed(seed)
    model = gated_vae(NetworkConfig("mlp", (50,), N, width=16, output="linear"))
    model.scaling.fit(x.mean(0), variance.mean().sqrt())
    config = GecoConfig(relative_scale=scale, highest=100 / scale)
    narrowing = Narrowing(model, Geco(0.04 * float(variance.sum()), config))
    optimiser = make_optimiser(narrowing)
    generator = torch.Generator().manual_seed(seed)
    settled: int | None = None
    for step in range(1, STEPS + 1):
        index = torch.randint(len(x), (BATCH,), generator=generator)
        loss, _ = narrowing(x[index], draw_noise(BATCH, N, generator))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        narrowing.constraint.project()
        if len(model.gates.kept()) != D:
            settled = None
        elif settled is None:
            settled = step
    return settled, scale * narrowing.constraint.multiplier().item()


def main() -> None:
    """Print one row a setting."""
    torch.set_num_threads(1)
    for scale in (20.0, 4.0, 1.0):
        runs = [run(scale, seed) for seed in range(3)]
        batches = ", ".join("not reached" if batch is None else f"{batch:,}" for batch, _ in runs)
        weights = ", ".join(f"{weight:.2f}" for _, weight in runs)
        print(f"scale {scale:2g}: 3 gates from batch {batches}; lambda' x scale {weights}", flush=True)


if __name__ == "__main__":
    main()
