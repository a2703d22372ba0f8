"""A latent map, as in convolutional VAEs: one gate per channel, and the fast recipe in your own loop.

The images are sums of three textures, each with its own strength at each of 4x4 places, so a latent map of 4x4 needs
three channels. The model starts with eight. Run it with

    python examples/spatial_latent.py
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows import VAE, Fast, GatedVAE

CHANNELS, PLACES, PATCH = 3, 4, 4


def make_draw(seed: int = 0) -> Callable[[int, torch.Generator], Tensor]:
    """Return a function that draws images, (count, 1, 16, 16): strengths times three orthogonal 4x4 textures."""
    textures = torch.linalg.qr(torch.randn(PATCH**2, CHANNELS, generator=torch.Generator().manual_seed(seed)))[0]
    textures = textures.T.reshape(CHANNELS, 1, PATCH, PATCH)

    def draw(count: int, generator: torch.Generator) -> Tensor:
        strengths = torch.randn(count, CHANNELS, PLACES, PLACES, generator=generator)
        return F.conv_transpose2d(strengths, textures, stride=PATCH)

    return draw


def main(n: int = 8, tau: float = 2.0) -> VAE:
    """Train until the recipe ends, and return the narrowed model. The error without any latent code is 48."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(1, 32, PATCH, stride=PATCH), nn.SiLU(), nn.Conv2d(32, 2 * n, 1))
    decoder = nn.Sequential(nn.Conv2d(n, 32, 1), nn.SiLU(), nn.ConvTranspose2d(32, 1, PATCH, stride=PATCH))
    model = GatedVAE(encoder, decoder, latent=(n, PLACES, PLACES))
    draw, generator = make_draw(), torch.Generator().manual_seed(1)

    fast = Fast(model, tau, held_out=draw, split_sizes=(5_000, 5_000))
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    while not fast.done:
        loss, record = fast(draw(64, generator), fast.noise(64, generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        decision = fast.after_step(optimiser)
        if decision is not None:
            print(f"{decision.action} {decision.gates}: error {record.error:.3f} (tau {tau})")

    narrowed = fast.monitor.averaged.narrow()
    x = draw(2_000, generator)
    error = (narrowed.reconstruct(x, generator) - x).square().flatten(1).sum(1).mean()
    print(f"{narrowed.n} of {n} channels are enough: error {error:.3f} (tau {tau})")
    return narrowed


if __name__ == "__main__":
    main()
