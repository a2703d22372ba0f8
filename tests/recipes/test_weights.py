"""Weights: a step with whole weights is the step in which each example stands as often as its weight says."""

import pytest
import torch

from narrows import Fast, GecoConfig, NetworkConfig, Noise, gated_vae
from narrows.constraint import Geco
from narrows.recipes.paper import Narrowing

WEIGHTS = torch.tensor([0.0, 1, 3, 2, 1, 0, 4, 1])
REPEATED = torch.repeat_interleave(torch.arange(8), WEIGHTS.long())


def objective(recipe):
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("mlp", (5,), 3, 2, "linear")).double()
    if recipe == "fast":
        return Fast(model, 2.0, lambda count, generator: torch.zeros(count, 5, dtype=torch.float64), (50, 50)).double()
    narrowing = Narrowing(model, Geco(2.0, GecoConfig())).double()
    narrowing.hit.fill_(recipe == "paper, after the first hit")
    return narrowing


@pytest.mark.parametrize("recipe", ["fast", "paper", "paper, after the first hit"])
def test_whole_weights_equal_repeated_rows(recipe):
    torch.manual_seed(1)
    x, eps, u = (torch.randn(8, width, dtype=torch.float64) for width in (5, 3, 3))
    noise = Noise(eps, u.sigmoid())
    weighted, repeated = objective(recipe), objective(recipe)
    loss, record = weighted(x, noise, WEIGHTS.double() / WEIGHTS.double().mean())
    other, same = repeated(x[REPEATED], Noise(*(part[REPEATED] for part in noise)))
    torch.testing.assert_close(loss, other, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.stack([*record]), torch.stack([*same]), rtol=1e-12, atol=1e-12)
    loss.backward()
    other.backward()
    for (name, one), (_, two) in zip(weighted.named_parameters(), repeated.named_parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-9, atol=1e-12, msg=name)
