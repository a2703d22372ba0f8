"""Models on the Hugging Face hub, or in a folder like one of its repositories, with a card written from the run.

    Pretrained.of("runs/my-1").push_to_hub("me/my-model")          # or .save_pretrained("folder")
    model = Pretrained.from_pretrained("me/my-model").model        # a narrows.VAE

A repository holds the safetensors file with its description, the result and the curves. Loading runs no code from any
of them.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

from narrows._util.checks import path_argument
from narrows._util.errors import NarrowsError
from narrows._util.files import write_atomic
from narrows._util.text import markdown_code, printable
from narrows._version import __version__
from narrows.inference.trained import open_trained
from narrows.model.storage import load_model, read_description
from narrows.model.vae import VAE
from narrows.runs.certificate import with_bound
from narrows.runs.folder import RunFolder
from narrows.runs.records import Result

MODEL, RESULT, FIGURE = "model.safetensors", "result.json", "curves.png"
DOWNLOAD = ("revision", "cache_dir", "force_download", "local_files_only", "token")
"""The settings of `hf_hub_download` that `ModelHubMixin.from_pretrained` passes on."""
USAGE = """
```python
from narrows import Pretrained

model = Pretrained.from_pretrained("THIS REPOSITORY").model
codes = model.encode(x).mean
```"""


class Pretrained(ModelHubMixin, library_name="narrows", tags=["vae", "narrows"]):
    """A trained model with its description and result, to share with others or to load from them.

    `save_pretrained(folder)` and `push_to_hub(repository)`, of huggingface_hub's `ModelHubMixin`, write the model, its
    result, its curves and a model card.

    Arguments:
        folder: A folder with a model.safetensors, and, where available, result.json and curves.png; text or a Path.

    Raises:
        NarrowsError: A file in the folder is missing or damaged.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = path_argument("folder", folder)
        self.model: VAE = load_model(self.folder / MODEL)
        self.about: dict[str, Any] = read_description(self.folder / MODEL)
        self.result: Result | None = RunFolder(self.folder).read_result()

    @classmethod
    def of(cls, run: str | os.PathLike[str]) -> Self:
        """Return the model of a run's folder.

        Arguments:
            run: The run's folder.

        Raises:
            NarrowsError: The folder holds no run, or the run has no model yet.
        """
        return cls(open_trained(run).path.parent)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], **settings: Any) -> Self:
        """Load a model from a folder or from the hub.

        Arguments:
            pretrained_model_name_or_path: A folder, or the name of a repository on the hub.
            settings: The other arguments of `ModelHubMixin.from_pretrained`, such as `revision` or `token`.

        Raises:
            NarrowsError: There is no such folder or repository, or a file of the model is damaged.
        """
        words = "a folder or the name of a repository on the hub"
        name = str(path_argument("pretrained_model_name_or_path", pretrained_model_name_or_path, words))
        try:
            return super().from_pretrained(name, **settings)
        except NarrowsError:
            raise
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            reason = printable(str(error).strip().partition("\n")[0])
            raise NarrowsError(f"{name} is no folder here, and cannot be fetched from the hub: {reason}") from error
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, AttributeError) as error:
            where = f"{name}/config.json" if os.path.isdir(name) else f"the config.json of {name}"
            raise NarrowsError(f"{where} is damaged ({error}); delete it: the model loads without it") from error

    def save_pretrained(self, save_directory: str | os.PathLike[str], **settings: Any) -> str | None:
        """Write the model, its result, its curves and a model card into a folder.

        Arguments:
            save_directory: The folder; it is created if it does not exist.
            settings: The other arguments of `ModelHubMixin.save_pretrained`.

        Raises:
            NarrowsError: `save_directory` is not a path, or cannot be a folder.
        """
        folder = path_argument("save_directory", save_directory)
        if folder.exists() and not folder.is_dir():
            raise NarrowsError(f"{folder} is a file; save_directory must be a folder")
        return super().save_pretrained(folder, **settings)

    def _save_pretrained(self, save_directory: Path) -> None:
        figure = self.folder / FIGURE
        if figure.is_symlink() and figure.resolve().parent != self.folder.resolve():
            raise NarrowsError(f"{figure} is a symlink to {figure.resolve()}, which would be copied; remove the link")
        for name in (MODEL, RESULT, FIGURE):
            if (self.folder / name).exists() and self.folder.resolve() != save_directory.resolve():
                write_atomic(save_directory / name, (self.folder / name).read_bytes())
        content = {"library": f"narrows {__version__}", **self.about}
        write_atomic(save_directory / "config.json", json.dumps(content, indent=2) + "\n")

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **settings: Any) -> Self:
        if os.path.isdir(model_id):
            return cls(Path(model_id))
        download = {name: settings[name] for name in DOWNLOAD}
        path = Path(hf_hub_download(model_id, MODEL, **download))
        with contextlib.suppress(EntryNotFoundError):
            hf_hub_download(model_id, RESULT, **download)
        return cls(path.parent)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """Return the model card: the result, its certificate, the data, the figure, and how to load the model."""
        data = ModelCardData(library_name="narrows", tags=["vae", "narrows"])
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{self._text()}")

    def _text(self) -> str:
        lines = [
            f"# A variational autoencoder with {self.model.n} latent dimensions",
            "",
            f"Trained by narrows {__version__} on {markdown_code(self.about.get('data', 'unknown data'))}.",
        ]
        result = self.result
        if result is not None:
            held, tau = result.heldout, result.tau
            unit = ", in each column's standard deviation or range" if "units" in self.about else ""
            promise = "no promise about the error" if tau is None else f"the promise that the error is at most {tau:g}"
            verdict = "" if tau is None else f" The promise is {'' if result.met else 'not '}certified."
            lines += [
                f"Training started with {result.n} latent dimensions and {promise} ({self.about.get('error')} error, "
                f"summed over an input's {result.values} values{unit}), and kept {result.dims} of them.",
                "",
                f"On {held.count:,} test inputs, which were used neither to train nor to choose the model: error "
                f"{with_bound(held, result.certificate)}, {held.error_at_mean:.4g} when decoding the mean.{verdict}",
                "",
                "| dimension | cost of removal | KL in nats | mean | standard deviation |",
                "|---|---|---|---|---|",
            ]
            for i, d in enumerate(result.dimensions):
                lines.append(f"| {i} | {d.cost:.4g} | {d.kl:.3g} | {d.mean:.2f} | {d.std:.2f} |")
        if (self.folder / FIGURE).exists():
            lines += ["", f"![Error, gates, multiplier and tolerance hits during training]({FIGURE})"]
        return "\n".join([*lines, USAGE]) + "\n"
