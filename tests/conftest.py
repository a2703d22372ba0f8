"""What all tests share: quiet, single-threaded torch and a cache folder of their own."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201)
