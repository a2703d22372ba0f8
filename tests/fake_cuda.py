"""A GPU that is not there: tensors that torch believes to be on `cuda:0`, with the numbers that a CPU computes.

Each CUDA tensor is one of torch's `FakeTensor`s, which have a device, a shape and strides but no numbers. Every
operation goes to torch's `FakeTensorMode`, which knows what CUDA would accept: it raises for a CPU tensor beside a CUDA
tensor, for an index on the wrong device, for `.numpy()`. Beside that, each fake tensor has a shadow, a real tensor on
the CPU, and the same operation runs on the shadows. So whatever asks for a number (`.item()`, `nonzero()`) gets the
right one, a whole run makes real decisions, and its result can be compared with that of the CPU.

What is replaced, because a torch without CUDA has none of it, and is therefore not tested:

- kernels: nothing says what CUDA computes, only that it can be asked to;
- `torch.Generator("cuda")`: a CPU generator that says it is on the device it was made for, and is refused for tensors
  on another device;
- `pin_memory()` returns its tensor as it is;
- while autograd's engine runs, the fake tensors say that they are on `meta`, since the engine would look for streams;
- `Module.to` moves each tensor that is elsewhere, and no other: torch's own way swaps fake tensors, which cannot be
  done once an optimiser has them;
- the guard that makes a device the current one is that of `meta`, which does nothing.
"""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CPU, META, CUDA = torch.device("cpu"), torch.device("meta"), torch.device("cuda", 0)
GUARDS, GUARD_OF_CUDA, GUARD_OF_META = "_ZN3c104impl26device_guard_impl_registryE", 1, 14
"""The table of device guards in libc10, and two of its places."""
BACKWARD = (Tensor.backward, torch.autograd.backward, torch.autograd.grad)


@contextlib.contextmanager
def fake_cuda() -> Iterator[None]:
    """Let tensors be made on `cuda:0` in this block; skip the test where a CUDA device guard cannot be had."""
    operations = _Operations()
    with (
        _guard(),
        mock.patch.object(torch, "Generator", _Generator),
        mock.patch.object(torch.cuda, "_lazy_init"),
        mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", return_value=False),
        mock.patch.object(torch.cuda, "is_bf16_supported", return_value=True),
        mock.patch.object(FakeTensor, "tolist", lambda self: self.cpu().tolist()),  # one copy, as on CUDA
        mock.patch.object(nn.Module, "to", _to),
        torch.autograd.set_multithreading_enabled(False),
        operations,
        _Calls(operations.fake),
    ):
        yield


def numbers(value: Tensor) -> Tensor:
    """Return the numbers that a tensor stands for, without a wait."""
    return value.shadow if isinstance(value, FakeTensor) else value  # type: ignore[attr-defined]


class _Operations(TorchDispatchMode):
    """Runs each operation twice: on fake CUDA tensors for its devices, and on their shadows for its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)

    def __enter__(self):
        self.before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(
            True
        )  # as FakeTensorMode: torch.tensor(..., device="cuda") makes no CUDA tensor
        return super().__enter__()

    def __exit__(self, *error):
        torch._C._set_only_lift_cpu_tensors(self.before)
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return META if self.fake.in_kernel_invocation else args[0].fake_device
        if not any(map(_is_on_cuda, tree_leaves((args, kwargs)))):
            return func(*args, **kwargs)
        in_engine, self.fake.in_kernel_invocation = self.fake.in_kernel_invocation, False
        if in_engine and kwargs.get("device") == META:
            kwargs = {**kwargs, "device": CUDA}
        try:
            return self._run_twice(func, args, kwargs)
        finally:
            self.fake.in_kernel_invocation = in_engine

    def _run_twice(self, func, args, kwargs):
        try:
            with self.fake:
                faked = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return tree_map(self._on_cuda, func(*tree_map(_real, args), **tree_map(_real, kwargs)))
        computed = func(*tree_map(_real, args), **tree_map(_real, kwargs))
        leaves, structure = torch.utils._pytree.tree_flatten(faked)
        pairs = zip(leaves, tree_leaves(computed), strict=True)
        return torch.utils._pytree.tree_unflatten([_joined(*pair) for pair in pairs], structure)

    def _on_cuda(self, value):
        """Return a result whose shape depends on numbers as a tensor on CUDA."""
        if not isinstance(value, Tensor):
            return value
        with self.fake:
            return _joined(torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=CUDA), value)


class _Calls(TorchFunctionMode):
    """Stands in where Python code meets CUDA above the operations."""

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self.fake = fake

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.__deepcopy__ and isinstance(args[0], FakeTensor):  # torch's asks where it is in memory
            return args[1].setdefault(id(args[0]), args[0].detach().clone())
        self.fake.in_kernel_invocation = func in BACKWARD
        try:
            result = func(*args, **kwargs)
        finally:
            self.fake.in_kernel_invocation = False
        generator = kwargs.get("generator")
        if generator is not None and isinstance(result, Tensor) and generator.device.type != result.device.type:
            raise RuntimeError(
                f"Expected a '{result.device.type}' device type for generator but found '{generator.device.type}'"
            )
        return result


class _Generator(torch.Generator):
    """A CPU generator that says which device it was made for."""

    def __new__(cls, device="cpu"):
        self = super().__new__(cls, "cpu")
        self.made_for = torch.device(device)
        return self

    @property
    def device(self):
        return self.made_for


def _is_on_cuda(value):
    return isinstance(value, FakeTensor) or (isinstance(value, torch.device) and value.type == "cuda")


def _real(value):
    if isinstance(value, FakeTensor):
        return value.shadow
    return CPU if _is_on_cuda(value) else value


def _joined(faked, computed):
    """Return a fake CUDA tensor with its shadow, or what is on the CPU as it is."""
    if not isinstance(faked, FakeTensor) or faked.device == CPU:
        return computed
    assert faked.dtype == computed.dtype
    if 0 in (faked.numel(), computed.numel()):  # statistics of BatchNorm in evaluation, which CUDA does not return
        computed = computed.new_empty(faked.shape)
    if faked.stride() != computed.stride():  # kernels choose the memory format of what they return
        computed = torch.empty_strided(faked.shape, faked.stride(), dtype=faked.dtype).copy_(computed)
    if getattr(faked, "shadow", None) is None:
        faked.shadow = computed
    return faked


def _to(self, *args, **kwargs):
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)

    def moved(tensor):
        return tensor.to(device or tensor.device, dtype if tensor.is_floating_point() else None)

    for module in self.modules():
        own = [tensor for tensor in (*module._parameters.values(), *module._buffers.values()) if tensor is not None]
        if any(moved(tensor) is not tensor for tensor in own):
            module._apply(moved, recurse=False)
    return self


@contextlib.contextmanager
def _guard() -> Iterator[None]:
    """Let CUDA have the device guard of `meta` where torch was built without one."""
    for library in sorted((Path(torch.__file__).parent / "lib").glob("libc10.*")):
        with contextlib.suppress(OSError, ValueError):
            guards = (ctypes.c_void_p * (GUARD_OF_META + 1)).in_dll(ctypes.CDLL(str(library)), GUARDS)
            break
    else:
        pytest.skip("the table of device guards was not found in this build of torch")
    before = guards[GUARD_OF_CUDA]
    guards[GUARD_OF_CUDA] = before or guards[GUARD_OF_META]
    try:
        yield
    finally:
        guards[GUARD_OF_CUDA] = before
