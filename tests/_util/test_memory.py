import numpy as np
import pytest
import torch
from torch import nn

from narrows import NarrowsError
from narrows._util.memory import within_memory


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(10**15),
        lambda: torch.empty(10**18, 100),
        lambda: torch.empty(10**30),
        lambda: nn.Linear(10**15, 3),
        lambda: np.empty(10**15),
        lambda: np.random.default_rng(0).random((10**30, 2)),
        lambda: float(10**400),
    ],
)
def test_what_no_memory_can_hold_says_so(make):
    with (
        pytest.raises(NarrowsError, match=r"^there is not enough memory for a tower; build a house$"),
        within_memory("a tower", "build a house"),
    ):
        make()


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2"), NarrowsError("its memory"), KeyError("memory")])
def test_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as caught, within_memory("a tower", "build a house"):
        raise error
    assert caught.value is error
