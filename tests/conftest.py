"""What all tests share: quiet, single-threaded torch and a cache folder of their own."""

import os
import signal

import pytest
import torch

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes that tests start: as many run at a time as there are cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201)
