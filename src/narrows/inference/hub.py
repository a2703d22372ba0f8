"""Models on the Hugging Face hub, or in a folder like one of its repositories, with a card written from the run.

    Pretrained.of("runs/my-1").push_to_hub("me/my-model")          # or .save_pretrained("folder")
    model = Pretrained.from_pretrained("me/my-model").model        # a narrows.VAE

What is shared is the safetensors file with its description, the answer and the curves. Loading runs no code from any
of them.
"""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from narrows._version import __version__
from narrows.errors import NarrowsError
from narrows.model import VAE, load_model, read_description
from narrows.runs import Result, RunFolder
from narrows.using import open_trained

MODEL, RESULT, FIGURE = "model.safetensors", "result.json", "curves.png"


class Pretrained(ModelHubMixin, library_name="narrows", tags=["vae", "narrows"]):
    """A trained model and what its run says about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.model: VAE = load_model(self.folder / MODEL)
        self.about: dict[str, Any] = read_description(self.folder / MODEL)
        self.result: Result | None = RunFolder(self.folder).read_result()

    @classmethod
    def of(cls, run: Path | str) -> Self:
        """Take the model of a run's folder."""
        return cls(open_trained(run).path.parent)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **settings: Any) -> Self:
        """Load a model from a folder or from the hub; `settings` are those of `ModelHubMixin.from_pretrained`."""
        name = str(pretrained_model_name_or_path)
        try:
            return super().from_pretrained(name, **settings)
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, AttributeError) as error:
            where = f"{name}/config.json" if os.path.isdir(name) else f"the config.json of {name}"
            raise NarrowsError(
                f"{where} is damaged ({error}); get it again, or delete it: nothing in it is needed"
            ) from error

    def _save_pretrained(self, save_directory: Path) -> None:
        for name in (MODEL, RESULT, FIGURE):
            if (self.folder / name).exists() and self.folder.resolve() != save_directory.resolve():
                shutil.copy(self.folder / name, save_directory / name)
        content = {"library": f"narrows {__version__}", **self.about}
        (save_directory / "config.json").write_text(json.dumps(content, indent=2) + "\n")

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **unused: Any,
    ) -> Self:
        if os.path.isdir(model_id):
            return cls(Path(model_id))
        settings: dict[str, Any] = {
            "revision": revision,
            "cache_dir": cache_dir,
            "force_download": force_download,
            "local_files_only": local_files_only,
            "token": token,
        }
        path = Path(hf_hub_download(model_id, MODEL, **settings))
        with contextlib.suppress(EntryNotFoundError):
            hf_hub_download(model_id, RESULT, **settings)
        return cls(path.parent)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """Return the card: the answer, its certificate, the data, the figure, how to load it."""
        data = ModelCardData(library_name="narrows", tags=["vae", "narrows"])
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{self._text()}")

    def _text(self) -> str:
        lines = [f"# A variational autoencoder with {self.model.n} latent dimensions", ""]
        lines.append(f"Trained by narrows {__version__} on `{self.about.get('data', 'unknown data')}`.")
        result = self.result
        if result is not None:
            held, tau = result.heldout, result.tau
            unit = ", in the columns' own standard deviations or ranges" if "units" in self.about else ""
            promise = "no promise about the error" if tau is None else f"the promise that the error is at most {tau:g}"
            verdict = "" if tau is None else f" The promise is {'kept' if result.met else 'not kept'} there."
            lines += [
                f"It was started with {result.n} latent dimensions and {promise} ({self.about.get('error')} error, "
                f"summed over an input's {result.values} values{unit}); {result.dims} are left.",
                "",
                f"On {held.count:,} test inputs, which trained and chose nothing: error {held.error:.4g} (95% interval "
                f"{held.low:.4g} to {held.high:.4g}), {held.error_at_mean:.4g} when decoding the mean.{verdict}",
                "",
                "| dimension | cost of removal | KL in nats | mean | standard deviation |",
                "|---|---|---|---|---|",
            ]
            for i, d in enumerate(result.dimensions):
                lines.append(f"| {i} | {d.cost:.4g} | {d.kl:.3g} | {d.mean:.2f} | {d.std:.2f} |")
        if (self.folder / FIGURE).exists():
            lines += ["", f"![Error, gates, multiplier and tolerance hits while training]({FIGURE})"]
        lines += [
            "",
            "```python",
            "from narrows import Pretrained",
            "",
            'model = Pretrained.from_pretrained("THIS REPOSITORY").model',
            "codes = model.encode(x).mean",
            "```",
        ]
        return "\n".join(lines) + "\n"
