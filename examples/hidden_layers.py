"""Gates on hidden layers: how many hidden units does a regression need?

A teacher network with six hidden units makes the targets. The student starts with 32 + 32 units in two gated layers,
closes as many as the bound on its error allows, and then loses them for good. Run it with

    python examples/hidden_layers.py
"""

import torch
from torch import nn

from narrows import Geco, GecoConfig, HiddenNarrowing, gate, narrow


def squared(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the squared error of each example, (batch,)."""
    return (network(x) - y).square().sum(1)


def main(steps: int = 6_000, tau: float = 0.05) -> tuple[nn.Module, float]:
    """Train, narrow, and return the small network with its error on new data."""
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).requires_grad_(False)
    for p in teacher.parameters():
        p.mul_(2.0)
    student = nn.Sequential(gate(nn.Linear(4, 32)), nn.Tanh(), gate(nn.Linear(32, 32)), nn.Tanh(), nn.Linear(32, 3))
    bound = Geco(tau, GecoConfig(relative_scale=1.0, highest=100.0))  # relative: the unit of the error does not matter
    objective = HiddenNarrowing(student, bound, error=squared)
    descend = torch.optim.Adam(student.parameters(), lr=3e-3, fused=True)
    ascend = torch.optim.Adam(bound.parameters(), lr=3e-3, maximize=True)
    generator = torch.Generator().manual_seed(0)

    for step in range(steps):
        x = torch.randn(128, 4, generator=generator)
        loss, record = objective((x, teacher(x)), objective.draw(128, generator))
        descend.zero_grad()
        ascend.zero_grad()
        loss.backward()
        descend.step()
        ascend.step()
        bound.project()
        if step % 500 == 0:
            units = [len(place.gates.kept()) for place in objective.places]
            print(f"batch {step}: error {record.error:.4f} (tau {tau}), open {units}")

    small = narrow(student)
    x = torch.randn(5_000, 4, generator=generator)
    error = squared(small, x, teacher(x)).mean().item()
    print(f"{small}\nerror {error:.4f} (tau {tau})")
    return small, error


if __name__ == "__main__":
    main()
