"""narrows: how many latent dimensions does my data need?

A variational autoencoder is trained under one promise, "the reconstruction error stays at or below tau", and closes
latent dimensions while it trains, as many as the promise allows. The reading order:

     1  data        from a name, a file, a folder or an array to splits, batches and units
     2  networks    encoders and decoders; removing latent dimensions from them
     3  gates       L0 gates with their gradient estimators, on the latent or any other layer
     4  model       VAE and GatedVAE, for built-in networks and your own; model files
     5  objective   the reconstruction errors and the gated KL
     6  constraint  GECO: moving average, multiplier, tolerance
     7  recipes     how a model is trained: Algorithm 1, the fast recipe, a plain VAE
     8  runs        what a run leaves on disk, and the certificate
     9  training    settings, the trainer, validation, checkpoints, the front
    10  estimator   fit / transform / inverse_transform, as scikit-learn's PCA
    11  anndata     the same for the cells of an AnnData
    12  inference   trained models on more data: codes, reconstructions, samples, export
    13  evaluation  how good a model and its samples are
    14  report      the answer as text, as pages, as figures and in the terminal
    15  sweeps      many runs from one description, on this machine or on a Ray cluster
    16  paper       the paper's four experiments, beside its published numbers
    17  explorer    a local page with one slider per latent dimension
    18  cli         the command line: parse, dispatch, exit codes

`_util` has what all of them use: errors, files, processes, progress. Imports point one way, from cli down.

The names below are imported when they are first used, so that `narrows --help` does not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from narrows._version import __version__

if TYPE_CHECKING:
    from narrows._util.errors import NarrowsError as NarrowsError
    from narrows.constraint import Geco as Geco, GecoConfig as GecoConfig
    from narrows.data import Data as Data, from_array as from_array, from_dataset as from_dataset, load as load
    from narrows.data.readers.frames import from_table as from_table
    from narrows.estimator import NarrowVAE as NarrowVAE
    from narrows.evaluation.evaluate import evaluate as evaluate
    from narrows.gates.l0 import L0Gates as L0Gates
    from narrows.gates.layer import Gate as Gate, gate as gate
    from narrows.gates.narrow import narrow as narrow
    from narrows.inference.hub import Pretrained as Pretrained
    from narrows.inference.sampling import Sampler as Sampler
    from narrows.model.storage import (
        load_model as load_model,
        read_description as read_description,
        save_model as save_model,
    )
    from narrows.model.vae import VAE as VAE, GatedVAE as GatedVAE, gated_vae as gated_vae
    from narrows.networks import NetworkConfig as NetworkConfig
    from narrows.recipes.base import Noise as Noise, StepRecord as StepRecord
    from narrows.recipes.controller import Controller as Controller, ControllerConfig as ControllerConfig
    from narrows.recipes.fast import Fast as Fast
    from narrows.recipes.hidden_layers import HiddenNarrowing as HiddenNarrowing
    from narrows.recipes.optimiser import Muon as Muon, make_optimiser as make_optimiser
    from narrows.recipes.paper import Narrowing as Narrowing, draw_noise as draw_noise
    from narrows.report.displays import (
        CodesDisplay as CodesDisplay,
        DimensionDisplay as DimensionDisplay,
        FrontDisplay as FrontDisplay,
        NarrowingDisplay as NarrowingDisplay,
        ReconstructionDisplay as ReconstructionDisplay,
        TraversalDisplay as TraversalDisplay,
    )
    from narrows.report.run_page import write_report as write_report
    from narrows.runs.certificate import Terms as Terms
    from narrows.runs.evaluation import Evaluation as Evaluation
    from narrows.runs.folder import RunFolder as RunFolder
    from narrows.runs.front import FrontFolder as FrontFolder
    from narrows.runs.records import Certificate as Certificate, Result as Result
    from narrows.sweeps.start import sweep as sweep
    from narrows.sweeps.table import SweepTable as SweepTable
    from narrows.training.config import TrainConfig as TrainConfig
    from narrows.training.front import resume_front as resume_front, train_front as train_front
    from narrows.training.start import resume as resume, train as train

_HOMES = {
    "narrows.recipes.base": ("Noise", "StepRecord"),
    "narrows.recipes.optimiser": ("Muon", "make_optimiser"),
    "narrows.recipes.paper": ("Narrowing", "draw_noise"),
    "narrows.recipes.controller": ("Controller", "ControllerConfig"),
    "narrows.constraint": ("Geco", "GecoConfig"),
    "narrows.data": ("Data", "from_array", "from_dataset", "load"),
    "narrows.data.readers.frames": ("from_table",),
    "narrows._util.errors": ("NarrowsError",),
    "narrows.estimator": ("NarrowVAE",),
    "narrows.evaluation.evaluate": ("evaluate",),
    "narrows.runs.evaluation": ("Evaluation",),
    "narrows.recipes.fast": ("Fast",),
    "narrows.runs.front": ("FrontFolder",),
    "narrows.gates.l0": ("L0Gates",),
    "narrows.gates.layer": ("Gate", "gate"),
    "narrows.gates.narrow": ("narrow",),
    "narrows.recipes.hidden_layers": ("HiddenNarrowing",),
    "narrows.model.storage": ("load_model", "read_description", "save_model"),
    "narrows.model.vae": ("VAE", "GatedVAE", "gated_vae"),
    "narrows.networks": ("NetworkConfig",),
    "narrows.report.displays": (
        "CodesDisplay",
        "DimensionDisplay",
        "FrontDisplay",
        "NarrowingDisplay",
        "ReconstructionDisplay",
        "TraversalDisplay",
    ),
    "narrows.report.run_page": ("write_report",),
    "narrows.runs.folder": ("RunFolder",),
    "narrows.runs.certificate": ("Terms",),
    "narrows.runs.records": ("Certificate", "Result"),
    "narrows.inference.sampling": ("Sampler",),
    "narrows.inference.hub": ("Pretrained",),
    "narrows.sweeps.start": ("sweep",),
    "narrows.sweeps.table": ("SweepTable",),
    "narrows.training.config": ("TrainConfig",),
    "narrows.training.start": ("resume", "train"),
    "narrows.training.front": ("resume_front", "train_front"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'narrows' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
