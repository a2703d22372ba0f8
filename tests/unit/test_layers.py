"""Layers against their plain forms in float64."""

import pytest
import torch
import torch.nn.functional as F

from narrows.layers import BatchNorm, UpsampleConv


def plain_upsample_conv(x, weight, bias, factors):
    larger = F.interpolate(x, scale_factor=factors, mode="nearest")
    return F.conv2d(larger, weight, bias, padding=1 if len(weight[0, 0]) == 3 else 0)


@pytest.mark.parametrize(("kernel", "factors"), [(3, (2, 2)), (2, (2, 2)), (3, (1, 2)), (3, (2, 1)), (3, (1, 1))])
@pytest.mark.parametrize("size", [(1, 1), (4, 4), (7, 7), (3, 8)])
@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_the_fast_upsampling_equals_the_plain_one(kernel, factors, size, outputs, generator):
    layer = UpsampleConv(3, outputs, kernel, factors).double()
    x = torch.randn(9, 3, *size, generator=generator, dtype=torch.float64, requires_grad=True)
    fast = layer(x)
    plain = plain_upsample_conv(x, layer.weight, layer.bias, factors)
    assert fast.shape == plain.shape
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)

    probe = torch.randn(fast.shape, generator=generator, dtype=torch.float64)
    inputs = (x, layer.weight, layer.bias)
    for ours, theirs in zip(
        torch.autograd.grad(fast, inputs, probe), torch.autograd.grad(plain, inputs, probe), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_batch_norm_equals_torchs_own(generator):
    ours, theirs = BatchNorm(3).double(), torch.nn.BatchNorm2d(3, momentum=0.2).double()
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5, generator=generator, dtype=torch.float64) * 2 + 1
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-12)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-12)


def test_reused_statistics_give_the_same_function_and_update_nothing(generator):
    """Decision D10: on the first pass's input the second pass gives its output; on a part of it, that part."""
    norm = BatchNorm(3).double()
    x = torch.randn(6, 3, 5, 5, generator=generator, dtype=torch.float64)
    record = []
    first = norm(x, record)
    before = norm.running_mean.clone()
    torch.testing.assert_close(norm(x, reuse=record[0]), first, rtol=0, atol=1e-12)
    torch.testing.assert_close(norm(x[2:4], reuse=record[0]), first[2:4], rtol=0, atol=1e-12)
    assert torch.equal(norm.running_mean, before)
