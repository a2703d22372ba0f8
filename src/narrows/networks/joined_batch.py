"""BatchNorm over the joined batch of all training processes.

The batch is the user's, whatever the number of processes that share it. With 8 processes and a batch of 64, a BatchNorm
that looks at its own 8 examples makes another model than one process does, and a noisier one. So the processes exchange
what makes up the statistics, and k of them compute what one would with all rows.

Forward, process i has n_i values per channel, with mean m_i and variance v_i. All gather (m_i, v_i, n_i) and join them
(Chan, Golub and LeVeque, 1983):

    N = sum n_i      m = sum n_i m_i / N      v = sum n_i (v_i + (m_i - m)^2) / N

which, unlike a sum of squares, loses no digits where the mean is large. Backward, the statistics are functions of all
rows, so for the output's gradient g and y = (x - m) / sqrt(v + eps) the input's needs two sums over all of them:

    dx = weight / sqrt(v + eps) (g - sum(g) / N - y sum(g y) / N)

The same code serves gloo and NCCL, on CPUs and GPUs. Every pass over the data is one of torch's BatchNorm kernels, and
each layer makes two small exchanges per step. torch's SyncBatchNorm runs on GPUs only, and it does not return the
statistics that the second decoder pass needs (decision D10).
"""

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from narrows._util.processes import gather_from_processes, process_count, sum_over_processes


def joined_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise by the joined batch's statistics and update the running ones, as `torch.native_batch_norm` does.

    All processes must call it; each may have another number of rows.

    Arguments:
        x: This process's rows, (batch, channels, ...).
        weight: Scale of each channel, (channels,), or None.
        bias: Offset of each channel, (channels,), or None.
        running_mean: Is updated, (channels,), or None.
        running_var: Is updated with the unbiased variance, (channels,), or None.
        momentum: Weight of this batch in the running statistics.
        eps: Added to the variance.

    Returns:
        The normalised rows, and the mean and inverse standard deviation that were used, (channels,) each.
    """
    with torch.no_grad():
        mean, variance, count = _joined_moments(x)
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_((variance * (count / (count - 1))).to(running_var.dtype), momentum)
        kind = torch.promote_types(x.dtype, torch.float32) if weight is None else weight.dtype
        mean, variance, count = mean.to(kind), variance.to(kind), count.to(kind)
    y = _Normalise.apply(x, weight, bias, mean, variance, count, eps)  # type: ignore[no-untyped-call]
    return y, mean, (variance + eps).rsqrt()


def _joined_moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, variance and number of values of each channel over all processes, (channels,) each, as doubles."""
    channels = x.shape[1]
    own = x.new_zeros(3, channels, dtype=torch.float64)
    if x.numel():  # torch's kernels end the program where there is nothing to divide by
        unused = x.new_zeros(2, channels, dtype=torch.promote_types(x.dtype, torch.float32))
        own[0], own[1] = torch.batch_norm_update_stats(x, unused[0], unused[1], 0.0)
        own[2] = x.numel() // channels
    means, variances, counts = gather_from_processes(own).unbind(1)
    count = counts.sum(0)
    mean = (counts * means).sum(0) / count
    return mean, (counts * (variances + (means - mean).square())).sum(0) / count, count


class _Normalise(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) * weight + bias, differentiated through statistics of all processes' rows."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        count: Tensor,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, variance, count)
        ctx.eps = eps
        return F.batch_norm(x, mean, variance, weight, bias, eps=eps) if x.numel() else x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, weight and bias; those of weight and bias are of this process's rows."""
        x, weight, mean, variance, count = ctx.saved_tensors
        if x.numel():
            # With given statistics, the kernel returns g weight / sqrt(v + eps), sum(g y) and sum(g).
            of_x, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
                gradient, x, weight, mean, variance, None, None, False, ctx.eps, [True, True, True]
            )
        else:
            of_x, of_weight, of_bias = torch.zeros_like(x), torch.zeros_like(mean), torch.zeros_like(mean)
        if ctx.needs_input_grad[0]:
            scale = (variance + ctx.eps).rsqrt() / count
            scale = -scale if weight is None else -scale * weight
            slope, offset = scale * sum_over_processes(torch.stack([of_weight, of_bias]))
            if x.numel():
                of_x = of_x + F.batch_norm(x, mean, variance, slope, offset, eps=ctx.eps)
        if weight is None:
            of_weight = None
        return of_x, of_weight, of_bias if ctx.needs_input_grad[2] else None, None, None, None, None


def joined_batch(module: nn.Module) -> contextlib.AbstractContextManager[Any]:
    """Within it, torch's BatchNorms in `module` see the joined batch; with one process it changes nothing.

    It is for a forward pass in training that all processes make. Our own `BatchNorm` needs no such context. Scripted
    modules do not notice it.
    """
    if process_count() > 1 and any(isinstance(part, _BatchNorm) for part in module.modules()):
        return _JoinedBatch()
    return contextlib.nullcontext()


class _JoinedBatch(TorchFunctionMode):
    """Replaces `F.batch_norm`, which all of torch's BatchNorms call, and so do classes derived from them.

    The modules stay what they are: copies of the model, its file and its state_dict know nothing of processes.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is F.batch_norm:
            function = _batch_norm
        return function(*args, **(kwargs or {}))


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Do what `F.batch_norm` does, in training with the joined batch's statistics."""
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    return joined_batch_norm(x, weight, bias, running_mean, running_var, momentum, eps)[0]
