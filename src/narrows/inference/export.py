"""A trained model for other programs: ONNX files, a torch program, or the safetensors file with its description.

The encoder takes examples in the user's units, (batch, *shape), and gives the posterior's mean and log standard
deviation; the decoder takes codes and gives examples in the user's units. The size of the batch is free.
"""

import contextlib
import copy
import importlib.util
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from narrows.errors import NarrowsError
from narrows.model import VAE
from narrows.using import Trained

Format = Literal["onnx", "torch", "safetensors"]


class EncoderPart(nn.Module):
    """Examples to codes."""

    def __init__(self, model: VAE) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`(batch, *shape)` -> mean and log standard deviation, (batch, n) each."""
        posterior = self.model.encode(x)
        return posterior.mean, posterior.log_std


class DecoderPart(nn.Module):
    """Codes to examples."""

    def __init__(self, model: VAE) -> None:
        super().__init__()
        self.model = model

    def forward(self, z: Tensor) -> Tensor:
        """(batch, n) -> `(batch, *shape)`."""
        return self.model.decode(z).float()


def export(trained: Trained, to: Format, folder: Path) -> list[Path]:
    """Write the model into a new or empty folder; return the files."""
    if to == "onnx":
        missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
        if missing:
            raise NarrowsError(f"ONNX files need {' and '.join(missing)}: pip install 'narrows[onnx]'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NarrowsError(f"{folder} exists and is not an empty folder: nothing is overwritten; choose another --out")
    if trained.model.n == 0:
        raise NarrowsError(f"{trained.path} has no dimensions left: it decodes everything to one example")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            made = Path(temporary) / "made"
            made.mkdir()
            names = _write(trained, to, made)
            if folder.exists():
                folder.rmdir()
            made.replace(folder)
    except OSError as error:
        raise NarrowsError(f"cannot write the folder {folder}: {error.strerror}; choose another --out") from error
    return [folder / name for name in names]


def _write(trained: Trained, to: Format, folder: Path) -> list[str]:
    (folder / "about.json").write_text(json.dumps(trained.about, indent=2) + "\n")
    if to == "safetensors":
        shutil.copy(trained.path, folder / "model.safetensors")
        return ["model.safetensors", "about.json"]
    names = []
    model = copy.deepcopy(trained.model).eval().requires_grad_(False)
    two = {"encoder": torch.zeros(2, *trained.shape), "decoder": torch.zeros(2, model.n)}
    for (name, example), part in zip(two.items(), (EncoderPart(model), DecoderPart(model)), strict=True):
        inputs, outputs = (["x"], ["mean", "log_std"]) if name == "encoder" else (["z"], ["x"])
        shapes = ({0: torch.export.Dim("batch")},)
        file = f"{name}.onnx" if to == "onnx" else f"{name}.pt2"
        with _quiet():
            if to == "onnx":
                program: Any = torch.onnx.export(
                    part, (example,), input_names=inputs, output_names=outputs, dynamic_shapes=shapes, verbose=False
                )
                program.save(folder / file, external_data=False)
            else:
                torch.export.save(torch.export.export(part, (example,), dynamic_shapes=shapes), folder / file)
        names.append(file)
    return [*names, "about.json"]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' notes (deprecations of their own, optional packages) from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
