"""Your own networks and loop on several processes, with Hugging Face Accelerate.

The problem is that of own_loop.py: data on a plane in R^10, six dimensions at the start, two at the end. Each process
has its share of every batch. Accelerate averages the gradients over all processes and the module averages the
constraint, so the run is the same as with one process and the whole batch. BatchNorm in the networks would see the
whole batch, too. Run it with

    torchrun --nproc_per_node 2 examples/own_loop_accelerate.py
"""

import torch
from accelerate import Accelerator
from torch import nn

from narrows import GatedVAE, Geco, Narrowing, Noise, draw_noise, make_optimiser
from narrows._util.processes import leave_group, own_share

BATCH = 64


def main(steps: int = 3_000, n: int = 6, tau: float = 0.2) -> list[int]:
    """Train, and return the dimensions that stayed open."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    plane = torch.linalg.qr(torch.randn(10, 2))[0]
    encoder = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 2 * n))
    decoder = nn.Sequential(nn.Linear(n, 32), nn.SiLU(), nn.Linear(32, 10))
    narrowing = Narrowing(GatedVAE(encoder, decoder, latent=n), Geco(tau), estimator="disarm")
    wrapped, optimiser = accelerator.prepare(narrowing, make_optimiser(narrowing, learning_rate=2e-3))
    generator = torch.Generator().manual_seed(0)  # the same on all processes: each takes its share of batch and noise

    for step in range(steps):
        x = torch.randn(BATCH, 2, generator=generator) @ plane.T
        noise = draw_noise(BATCH, n, generator)
        loss, record = wrapped(own_share(x), Noise(own_share(noise.eps), own_share(noise.u)))
        accelerator.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        narrowing.constraint.project()
        if step % 500 == 0:
            kept = narrowing.model.gates.kept()
            accelerator.print(f"batch {step}: error {record.error:.3f} (tau {tau}), open {kept}")

    kept = narrowing.model.gates.kept()
    accelerator.print(f"{accelerator.num_processes} processes: the data need {len(kept)} dimensions")
    accelerator.free_memory()
    del wrapped, optimiser
    leave_group()
    return kept


if __name__ == "__main__":
    main()
