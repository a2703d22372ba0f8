"""Layers against their plain forms in float64."""

import torch

from narrows.networks.batchnorm import BatchNorm


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
