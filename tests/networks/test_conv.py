"""Shapes for every size of image, the paper's networks layer by layer."""

import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.networks import NetworkConfig, build, has_conv_plan
from narrows.networks.conv import ConvPlan, conv_plan

SHAPES = [
    (1, 64, 64), (3, 64, 64), (1, 28, 28), (4, 28, 28), (1, 16, 16), (3, 17, 31), (1, 28, 64),
    (3, 16, 256), (1, 256, 19), (3, 48, 100), (1, 127, 127),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_convolutional_shapes(shape):
    encoder, decoder, _ = build(NetworkConfig("conv", shape, n=6, width=4))
    x = torch.rand(2, *shape).contiguous(memory_format=torch.channels_last)
    assert encoder(x).shape == (2, 12)
    out = decoder(torch.randn(2, 6))
    assert out.shape == (2, *shape)
    assert out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_network_can_learn_every_pixel(shape):
    """Each output pixel depends on the latent vector, and each input pixel reaches the code."""
    torch.manual_seed(0)
    encoder, decoder, _ = build(NetworkConfig("conv", shape, n=3, width=2))
    encoder.double().eval(), decoder.double().eval()
    x = torch.rand(1, *shape, dtype=torch.float64, requires_grad=True)
    (seen,) = torch.autograd.grad(encoder(x).square().sum(), x)
    assert (seen != 0).all()
    assert (decoder(torch.randn(2, 3, dtype=torch.float64)).diff(dim=0) != 0).all()


def test_all_sizes_have_a_plan_that_ends_small():
    for height in range(16, 257, 7):
        for width in (16, 33, 64, 201, 256):
            plan = conv_plan((1, height, width))
            assert all(3 <= side <= 4 for side in plan.sizes[-1])
            assert len(plan.kernels) == len(plan.channels) == len(plan.up_kernels) == len(plan.sizes) - 1


def test_the_rule_for_all_sizes_gives_the_papers_network_for_64():
    sizes = ((64, 64), (32, 32), (16, 16), (8, 8), (4, 4))
    assert conv_plan((3, 64, 64)) == ConvPlan(sizes, (4, 3, 3, 3), (1, 1, 2, 2), (3, 3, 3, 3))


@pytest.mark.parametrize("shape", [(1, 15, 64), (1, 64, 257), (9,)])
def test_sizes_without_a_plan(shape):
    assert not has_conv_plan(shape)
    with pytest.raises(NarrowsError, match="sides of 16 to 256"):
        conv_plan(shape)


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
