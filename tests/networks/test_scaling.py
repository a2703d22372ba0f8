"""Scaling and its inverse."""

import torch

from narrows.networks import Scaling


def test_scaling_is_undone_on_the_way_out(generator):
    scaling = Scaling("linear", (4,)).double()
    x = 1000 * torch.randn(9, 4, generator=generator, dtype=torch.float64) + 50
    scaling.fit(x.mean(0), x.std())
    torch.testing.assert_close(scaling.outward(scaling.inward(x, x.dtype)), x)
    assert scaling.inward(x, x.dtype).abs().max() < 10


def test_scaling_of_constant_data_does_not_divide_by_zero():
    scaling = Scaling("linear", (4,))
    scaling.fit(torch.full((4,), 3.0), torch.tensor(0.0))
    assert torch.equal(scaling.inward(torch.full((2, 4), 3.0), torch.float32), torch.zeros(2, 4))
