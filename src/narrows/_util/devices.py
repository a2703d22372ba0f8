"""Moving tensors to a device without waiting for it.

A GPU works through a queue that the host fills, and training is fast while the queue never runs empty. Whoever needs
a number from the device waits until it is: `.item()`, `.tolist()`, `.cpu()`, `bool()`, `nonzero()`, a boolean index. So
does an ordinary copy to the device. tests/test_devices.py counts the waits of every step.
"""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a CPU tensor on a device.

    CUDA copies from pinned memory while the host goes on; a copy from any other memory waits for all that is queued.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
