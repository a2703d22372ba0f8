"""Layers against their plain forms in float64, shapes, and the cutting of dimensions."""

import pytest
import torch
import torch.nn.functional as F

from narrows.networks import BatchNorm, NetworkConfig, Scaling, UpsampleConv, build


def plain_upsample_conv(x, weight, bias):
    return F.conv2d(
        F.interpolate(x, scale_factor=2, mode="nearest"), weight, bias, padding=1 if len(weight[0, 0]) == 3 else 0
    )


@pytest.mark.parametrize("kernel", [3, 2])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_the_fast_upsampling_equals_the_plain_one(kernel, size, generator):
    layer = UpsampleConv(3, 5, kernel).double()
    x = torch.randn(2, 3, size, size, generator=generator, dtype=torch.float64, requires_grad=True)
    fast = layer(x)
    plain = plain_upsample_conv(x, layer.weight, layer.bias)
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


@pytest.mark.parametrize("shape", [(1, 64, 64), (3, 64, 64), (1, 28, 28), (4, 28, 28)])
def test_convolutional_shapes(shape):
    encoder, decoder, _ = build(NetworkConfig("conv", shape, n=6, width=4))
    x = torch.rand(2, *shape).contiguous(memory_format=torch.channels_last)
    assert encoder(x).shape == (2, 12)
    out = decoder(torch.randn(2, 6))
    assert out.shape == (2, *shape)
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_the_papers_networks_layer_by_layer():
    """Section IV and decision D7: kernels, strides and channels."""
    encoder, decoder, _ = build(NetworkConfig("conv", (1, 64, 64), n=10))
    assert [(c.kernel_size[0], c.stride[0], c.out_channels) for c in encoder.convs] == [
        (4, 2, 32), (3, 2, 32), (3, 2, 64), (3, 2, 64),
    ]  # fmt: skip
    assert (encoder.hidden.out_features, encoder.head.out_features) == (128, 20)
    assert [tuple(c.weight.shape) for c in decoder.convs] == [
        (64, 64, 3, 3), (32, 64, 3, 3), (32, 32, 3, 3), (1, 32, 3, 3),
    ]  # fmt: skip
    encoder, decoder, _ = build(NetworkConfig("conv", (1, 28, 28), n=10))
    assert [(c.kernel_size[0], c.out_channels) for c in encoder.convs] == [(4, 32), (3, 64), (2, 64)]
    assert [tuple(c.weight.shape) for c in decoder.convs] == [(64, 64, 2, 2), (32, 64, 3, 3), (1, 32, 3, 3)]


def test_scaling_is_undone_on_the_way_out(generator):
    scaling = Scaling("linear", (4,)).double()
    x = 1000 * torch.randn(9, 4, generator=generator, dtype=torch.float64) + 50
    scaling.fit(x.mean(0), x.std())
    torch.testing.assert_close(scaling.outward(scaling.inward(x)), x)
    assert scaling.inward(x).abs().max() < 10


def test_scaling_of_constant_data_does_not_divide_by_zero():
    scaling = Scaling("linear", (4,))
    scaling.fit(torch.full((4,), 3.0), torch.tensor(0.0))
    assert torch.equal(scaling.inward(torch.full((2, 4), 3.0)), torch.zeros(2, 4))
