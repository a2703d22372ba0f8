"""Upsampling and convolution in one layer, against the two of them in float64."""

import copy

import pytest
import torch
import torch.nn.functional as F

from narrows.networks import upsampling
from narrows.networks.upsampling import UpsampleConv

FORMS = [(3, (2, 2)), (2, (2, 2)), (3, (1, 2)), (3, (2, 1)), (3, (1, 1))]


@pytest.fixture(params=["products", "parts", "transposed"])
def way(request, monkeypatch):
    """All ways to do it: products and sums, at once or in parts of the batch, or one transposed convolution."""
    if request.param == "parts":
        monkeypatch.setattr(upsampling, "MOST", 2**11)
    if request.param == "transposed":
        monkeypatch.setattr(UpsampleConv, "_has_products", lambda layer, x: False)
    return request.param


def plainly(x, layer):
    larger = F.interpolate(x, scale_factor=layer.factors, mode="nearest")
    return F.conv2d(larger, layer.weight, layer.bias, padding=1 if layer.weight.shape[2] == 3 else 0)


def double(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("kernel", "factors"), FORMS)
@pytest.mark.parametrize("size", [(1, 1), (4, 4), (7, 7), (3, 8)])
@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_it_equals_the_plain_form_and_so_do_its_gradients(way, kernel, factors, size, outputs, generator):
    layer = UpsampleConv(3, outputs, kernel, factors).double()
    x = double(generator, 9, 3, *size).requires_grad_()
    fast, plain = layer(x), plainly(x, layer)
    assert fast.shape == plain.shape
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)

    probe = double(generator, *fast.shape)
    inputs = (x, layer.weight, layer.bias)
    for ours, theirs in zip(
        torch.autograd.grad(fast, inputs, probe), torch.autograd.grad(plain, inputs, probe), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("outputs", [2, 5])
@pytest.mark.parametrize("batch", [1, 2, 3, 64, 65, 5])
def test_any_batch_after_any_other(outputs, batch, generator):
    """What is summed is remembered for a power of two, of which other batches have a part."""
    layer = UpsampleConv(4, outputs, 3).double()
    x = double(generator, batch, 4, 3, 5)
    torch.testing.assert_close(layer(x), plainly(x, layer), rtol=0, atol=1e-12)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), plainly(x, layer), rtol=0, atol=1e-12)


@pytest.mark.parametrize("outputs", [2, 5])
def test_gradients_of_gradients(outputs, generator):
    layer = UpsampleConv(2, outputs, 3).double()
    with torch.inference_mode():
        layer(double(generator, 2, 2, 3, 3))  # what was made in here must do for training
    x = double(generator, 2, 2, 3, 3).requires_grad_()

    def call(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(call, (x, layer.weight, layer.bias))
    assert torch.autograd.gradgradcheck(call, (x, layer.weight, layer.bias))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, in jacfwd
@pytest.mark.parametrize("outputs", [2, 5])
def test_functional_transforms(outputs, generator):
    layer = UpsampleConv(2, outputs, 3).double()
    x = double(generator, 2, 2, 3, 3)
    for derivative in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(derivative(layer)(x), derivative(plainly)(x, layer), rtol=0, atol=1e-12)
    each = torch.func.vmap(lambda one: layer(one.unsqueeze(0)).squeeze(0))(x)
    torch.testing.assert_close(each, plainly(x, layer), rtol=0, atol=1e-12)


def test_only_the_gradients_that_are_asked_for(generator):
    layer = UpsampleConv(2, 5, 3).double().requires_grad_(False)
    x = double(generator, 2, 2, 3, 3).requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is None


@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_channels_stay_last_and_an_activation_may_work_in_place(way, outputs, generator):
    layer = UpsampleConv(3, outputs, 3).double()
    x = double(generator, 4, 3, 5, 5).to(memory_format=torch.channels_last).requires_grad_()
    y = layer(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    wanted = F.leaky_relu(plainly(x, layer), 0.02)
    torch.testing.assert_close(F.leaky_relu_(y, 0.02), wanted, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert gradient.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted.square().sum(), x)[0], rtol=0, atol=1e-10)


def test_the_weight_is_the_products_matrix_as_it_lies():
    """Also in copies, and its gradient lies the same way: nothing is turned round in a step."""
    layer = copy.deepcopy(UpsampleConv(3, 5, 3))
    layer.load_state_dict(UpsampleConv(3, 5, 3).state_dict())
    assert layer.weight.permute(2, 3, 0, 1).is_contiguous()
    layer(torch.rand(2, 3, 4, 4)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.stride() == layer.weight.stride()


def test_initial_values_are_those_of_a_plain_convolution():
    torch.manual_seed(0)
    plain = torch.nn.Conv2d(3, 5, 3)
    torch.manual_seed(0)
    ours = UpsampleConv(3, 5, 3)
    assert torch.equal(ours.weight, plain.weight)
    assert plain.bias is not None
    assert torch.equal(ours.bias, plain.bias)


def test_products_that_leave_the_cache(monkeypatch):
    """They are faster in training, between many channels, and only if the process keeps its memory."""
    monkeypatch.setattr(upsampling, "CACHED", 8)
    x = torch.rand(2, 32, 3, 3)
    for memory_kept in (True, False):
        assert UpsampleConv(32, 32, 3, memory_kept=memory_kept)._has_products(x) is memory_kept
        assert not UpsampleConv(32, 31, 3, memory_kept=memory_kept)._has_products(x)
        with torch.no_grad():
            assert not UpsampleConv(32, 32, 3, memory_kept=memory_kept)._has_products(x)


@pytest.mark.parametrize("channels", [1, 4, 16])
@pytest.mark.parametrize("outputs", [3, 8])
def test_inputs_of_another_number_of_channels_are_refused(way, channels, outputs):
    with pytest.raises(RuntimeError), torch.no_grad():
        UpsampleConv(8, outputs, 3)(torch.rand(2, channels, 5, 5))


def test_half_precision_and_no_examples_are_the_librarys():
    layer = UpsampleConv(4, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.rand(2, 4, 3, 3)).dtype == torch.bfloat16
    assert layer.bfloat16()(torch.rand(2, 4, 3, 3).bfloat16()).shape == (2, 5, 6, 6)
    assert layer.float()(torch.rand(0, 4, 3, 3)).shape == (0, 5, 6, 6)


def test_wide_rows_of_few_channels_are_the_librarys(generator):
    layer = UpsampleConv(2, 3, 3).double()
    for width, products in ((42, True), (43, False)):
        x = double(generator, 2, 2, 3, width)
        torch.testing.assert_close(layer(x), plainly(x, layer), rtol=0, atol=1e-12)
        assert layer._has_products(x) is products


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_it_can_be_traced():
    x = torch.rand(2, 4, 3, 3)
    layer = UpsampleConv(4, 5, 3)
    torch.testing.assert_close(torch.jit.trace(layer, x)(x), layer(x))


def test_a_program_for_other_machines_has_a_transposed_convolution():
    example = (torch.rand(2, 4, 3, 3),)
    program = torch.export.export(UpsampleConv(4, 5, 3).eval(), example)
    assert "conv_transpose2d" in program.graph_module.code
    assert "embedding_bag" not in program.graph_module.code
