"""A recommender: how many tastes do the users have? Sparse clicks, with a multinomial likelihood as the bounded error.

Every user has four tastes (numbers drawn from N(0, 1)) and clicks 60 times among 300 items, with probabilities that
follow from the tastes, so most items have no click. The error is the negative log-likelihood of a user's clicks, in
nats. The promise is four fifths of the way from "everyone likes popular items" to what the true tastes explain. The
model starts with sixteen dimensions. Run it with

    python examples/recommender.py
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows import Fast, GatedVAE

RANK, ITEMS, CLICKS, USERS, HELD = 4, 300, 60, 20_000, 2_000


def draw_users(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return clicks, (users, items), and the probabilities they were drawn from, in the same shape."""
    generator = torch.Generator().manual_seed(seed)
    tastes = torch.randn(USERS + 2 * HELD, RANK, generator=generator)
    items = torch.randn(RANK, ITEMS, generator=generator)
    popular = torch.randn(ITEMS, generator=generator)
    chances = F.softmax(tastes @ items + popular, dim=1)
    clicked = torch.multinomial(chances, CLICKS, replacement=True, generator=generator)
    return torch.zeros_like(chances).scatter_add_(1, clicked, torch.ones_like(chances)[:, :CLICKS]), chances


def surprise(clicks: Tensor, logits: Tensor) -> Tensor:
    """Return the negative log-likelihood of each user's clicks, (users,); both inputs are (users, items)."""
    return -(clicks * F.log_softmax(logits, dim=1)).sum(1)


class Encoder(nn.Module):
    """An encoder from clicks to means and log standard deviations."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(ITEMS, 128), nn.SiLU(), nn.Linear(128, 2 * n))

    def forward(self, clicks: Tensor) -> Tensor:
        """Map (users, items) to (users, 2n); the logarithm makes a second click count less than the first."""
        return self.layers(torch.log1p(clicks))


def main(n: int = 16) -> tuple[int, float, float]:
    """Train until the recipe ends; return the number of dimensions, tau and the error on new users."""
    torch.manual_seed(0)
    clicks, chances = draw_users()
    train, held, new = torch.split(clicks, [USERS, HELD, HELD])
    popular = surprise(new, train.sum(0).log().expand_as(new)).mean().item()
    truth = surprise(new, chances[-HELD:].log()).mean().item()
    tau = popular - 0.8 * (popular - truth)
    print(f"{(new > 0).float().mean():.0%} of the items clicked; popularity {popular:.1f} nats, truth {truth:.1f}")

    model = GatedVAE(Encoder(n), nn.Linear(n, ITEMS), latent=n)
    generator = torch.Generator().manual_seed(0)
    fast = Fast(
        model,
        tau,
        held_out=lambda count, draw: held[torch.randint(HELD, (count,), generator=draw)],
        split_sizes=(HELD, HELD),
        error=surprise,
    )
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3, fused=True)
    step = 0
    while not fast.done:
        x = train[torch.randint(USERS, (128,), generator=generator)]
        loss, record = fast(x, fast.noise(128, generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        decision = fast.after_step(optimiser)
        step += 1
        if decision is not None:
            print(f"batch {step}: {decision.action} {decision.gates}, error {record.error:.2f} (tau {tau:.2f})")

    narrowed = fast.monitor.averaged.narrow()
    error = surprise(new, narrowed.reconstruct(new, generator)).mean().item()
    print(f"{narrowed.n} tastes: error {error:.2f} on new users (tau {tau:.2f})")
    return narrowed.n, tau, error


if __name__ == "__main__":
    main()
