"""Your own networks, loss and loop: the gates and the constraint as plain PyTorch modules.

The data lie on a plane in R^10; the model starts with six dimensions and ends with two. Run it with

    python examples/own_loop.py
"""

import torch
from torch import nn

from narrows import Geco, L0Gates
from narrows.gates.l0 import draw_uniform
from narrows.objective import gated_kl, kl_elements, squared_error


def main(steps: int = 3_000, n: int = 6, tau: float = 0.2) -> list[int]:
    """Train, and return the dimensions that stayed open."""
    torch.manual_seed(0)
    plane = torch.linalg.qr(torch.randn(10, 2))[0]
    encoder = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 2 * n))
    decoder = nn.Sequential(nn.Linear(n, 32), nn.SiLU(), nn.Linear(32, 10))
    gates, constraint = L0Gates(n), Geco(tau)
    descend = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *gates.parameters()], lr=2e-3)
    ascend = torch.optim.Adam(constraint.parameters(), lr=2e-3, maximize=True)
    generator = torch.Generator().manual_seed(0)

    for step in range(steps):
        x = torch.randn(64, 2, generator=generator) @ plane.T
        mean, log_std = encoder(x).chunk(2, dim=1)
        z = mean + log_std.exp() * torch.randn(64, n, generator=generator)

        pair = gates.pair(draw_uniform(64, n, generator))  # one u, two gate vectors
        error = squared_error(x, decoder(z * pair.second))
        with torch.no_grad():
            other = squared_error(x, decoder(z * pair.first))

        term = constraint(error)
        hits = (term.violation <= 0).float().mean()
        kl = gated_kl(kl_elements(mean, log_std), pair.second).mean()
        pull = gates.gradient((other - error) * term.multiplier, pair, "disarm")
        loss = term.loss + kl + hits * gates.probability().sum() + gates.surrogate(pull)

        descend.zero_grad()
        ascend.zero_grad()
        loss.backward()
        descend.step()
        ascend.step()
        constraint.project()
        if step % 500 == 0:
            print(f"batch {step}: error {error.mean():.3f} (tau {tau}), open {gates.kept()}")
    print(f"the data need {len(gates.kept())} dimensions")
    return gates.kept()


if __name__ == "__main__":
    main()
