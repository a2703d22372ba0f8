"""A trained model for other programs: ONNX files, torch programs, or the safetensors file with its description.

The encoder takes examples in the user's units, `(batch, *shape)`, and returns the posterior's mean and log standard
deviation; the decoder takes codes and returns examples in the user's units. The batch size is free.
"""

import contextlib
import copy
import importlib.util
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from narrows._util.errors import NarrowsError, setting
from narrows._util.files import write_atomic
from narrows.inference.trained import Trained
from narrows.model.vae import VAE

Format = Literal["onnx", "torch", "safetensors"]
FORMATS: tuple[Format, ...] = get_args(Format)


class _Part(nn.Module):
    def __init__(self, model: VAE) -> None:
        super().__init__()
        self.model = model


class EncoderPart(_Part):
    """The encoder alone: from examples to codes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`(batch, *shape)` -> mean and log standard deviation, (batch, n) each."""
        posterior = self.model.encode(x)
        return posterior.mean, posterior.log_std


class DecoderPart(_Part):
    """The decoder alone: from codes to examples."""

    def forward(self, z: Tensor) -> Tensor:
        """(batch, n) -> `(batch, *shape)`."""
        return self.model.decode(z).float()


def export(trained: Trained, to: Format, folder: Path) -> list[Path]:
    """Write the model into a new or empty folder, completely or not at all, and return the files."""
    if to == "onnx":
        missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
        if missing:
            raise NarrowsError(f"ONNX files need {' and '.join(missing)}: pip install 'narrows[onnx]'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NarrowsError(f"{folder} exists and is not an empty folder; choose another {setting('out')}")
    if trained.model.n == 0:
        raise NarrowsError(f"{trained.path} has no dimensions left: it decodes every code to the same example")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            staging = Path(temporary) / folder.name
            staging.mkdir()
            names = _write(trained, to, staging)
            if folder.exists():
                folder.rmdir()
            staging.replace(folder)
    except OSError as error:
        raise NarrowsError(f"cannot write {folder}: {error.strerror}; choose another {setting('out')}") from error
    return [folder / name for name in names]


def _write(trained: Trained, to: Format, folder: Path) -> list[str]:
    write_atomic(folder / "about.json", json.dumps(trained.about, indent=2) + "\n")
    if to == "safetensors":
        write_atomic(folder / "model.safetensors", trained.path.read_bytes())
        return ["model.safetensors", "about.json"]
    model = copy.deepcopy(trained.model).eval().requires_grad_(False)
    parts = {
        "encoder": (EncoderPart(model), torch.zeros(2, *trained.shape), ["x"], ["mean", "log_std"]),
        "decoder": (DecoderPart(model), torch.zeros(2, model.n), ["z"], ["x"]),
    }
    shapes, suffix = ({0: torch.export.Dim("batch")},), "onnx" if to == "onnx" else "pt2"
    for name, (part, example, inputs, outputs) in parts.items():
        path = folder / f"{name}.{suffix}"
        with _quiet():
            if to == "onnx":
                program: Any = torch.onnx.export(
                    part, (example,), input_names=inputs, output_names=outputs, dynamic_shapes=shapes, verbose=False
                )
                program.save(path, external_data=False)
            else:
                content = io.BytesIO()  # torch's own writer of files aborts the process when the disk is full
                torch.export.save(torch.export.export(part, (example,), dynamic_shapes=shapes), content)
                write_atomic(path, content.getvalue())
    return [*(f"{name}.{suffix}" for name in parts), "about.json"]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporters' own warnings (deprecations, optional packages) from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
