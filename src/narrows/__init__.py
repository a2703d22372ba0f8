"""narrows: how many latent dimensions does my data need?

A variational autoencoder is trained under one promise, "the reconstruction error stays at or below tau", and closes
latent dimensions while it trains, as many as the promise allows. The reading order:

     1  data         inputs: five sets, your own files, folders and arrays; splits and batches
     2  networks     encoders and decoders; cutting latent rows and columns
     3  gates        L0 gates: probability, the antithetic pair, ARM and DisARM
        gating       gates on any inner layer; narrow() cuts what they closed
     4  model        VAE and GatedVAE; narrow() returns a new, smaller model
        descriptions what a saved model says about itself, checked before anything is built from it
        own          the same for an encoder and a decoder of your own, latent vectors or maps
     5  objective    reconstruction error, gated KL
     6  constraint   GECO: moving average, multiplier, tolerance
     7  algorithm    Algorithm 1: one step, in the paper's order
        inner        the same for gates anywhere in a network
        runs         the run folder's contract
        monitor      the averaged weights' held-out error, each dimension's cost of removal
        closing      when gates close and open again, when training ends
        fast         the fast recipe: L0 first, KL second, under the same bound
     8  training     the loop, the two recipes, the front, evaluation, checkpoints
     9  estimator    fit / transform / inverse_transform, as scikit-learn's PCA
        using        trained models on more data: codes, reconstructions, samples; exporting, sharing
        sampling     where new examples come from: the prior, a Gaussian or a mixture fitted to the codes
        evaluating   how good a model and its samples are (normals, features, classifier)
    10  experiments  the paper's four experiments: jobs and rows
    11  report       the answer in words, the curves, a run's page (run_page), the live displays, the paper's numbers
        watching     a run at work: following its folder, its curves as dots on a screen, its live page
        explorer     a local page with a slider a dimension: models, inputs, uploads, the server
    12  cli          parse, dispatch, exit codes

The names below are imported when they are first used, so that `narrows --help` need not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from narrows._version import __version__

if TYPE_CHECKING:
    from narrows.algorithm import Narrowing as Narrowing
    from narrows.algorithm import Noise as Noise
    from narrows.algorithm import StepRecord as StepRecord
    from narrows.algorithm import draw_noise as draw_noise
    from narrows.algorithm import make_optimiser as make_optimiser
    from narrows.closing import Closing as Closing
    from narrows.closing import ClosingConfig as ClosingConfig
    from narrows.constraint import Geco as Geco
    from narrows.constraint import GecoConfig as GecoConfig
    from narrows.data import Data as Data
    from narrows.data import from_array as from_array
    from narrows.data import from_dataset as from_dataset
    from narrows.data import load as load
    from narrows.errors import NarrowsError as NarrowsError
    from narrows.estimator import NarrowVAE as NarrowVAE
    from narrows.evaluating import evaluate as evaluate
    from narrows.evaluation import Evaluation as Evaluation
    from narrows.fast import Fast as Fast
    from narrows.fronts import FrontFolder as FrontFolder
    from narrows.gates import L0Gates as L0Gates
    from narrows.gating import Gate as Gate
    from narrows.gating import gate as gate
    from narrows.gating import narrow as narrow
    from narrows.inner import InnerNarrowing as InnerNarrowing
    from narrows.model import VAE as VAE
    from narrows.model import GatedVAE as GatedVAE
    from narrows.model import gated_vae as gated_vae
    from narrows.model import load_model as load_model
    from narrows.model import read_description as read_description
    from narrows.model import save_model as save_model
    from narrows.networks import NetworkConfig as NetworkConfig
    from narrows.own import OwnVAE as OwnVAE
    from narrows.report.run_page import write_report as write_report
    from narrows.runs import Result as Result
    from narrows.runs import RunFolder as RunFolder
    from narrows.sampling import Sampler as Sampler
    from narrows.sharing import Pretrained as Pretrained
    from narrows.training.config import TrainConfig as TrainConfig
    from narrows.training.entry import resume as resume
    from narrows.training.entry import train as train
    from narrows.training.front import resume_front as resume_front
    from narrows.training.front import train_front as train_front

_HOMES = {
    "narrows.algorithm": ("Narrowing", "Noise", "StepRecord", "draw_noise", "make_optimiser"),
    "narrows.closing": ("Closing", "ClosingConfig"),
    "narrows.constraint": ("Geco", "GecoConfig"),
    "narrows.data": ("Data", "from_array", "from_dataset", "load"),
    "narrows.errors": ("NarrowsError",),
    "narrows.estimator": ("NarrowVAE",),
    "narrows.evaluating": ("evaluate",),
    "narrows.evaluation": ("Evaluation",),
    "narrows.fast": ("Fast",),
    "narrows.fronts": ("FrontFolder",),
    "narrows.gates": ("L0Gates",),
    "narrows.gating": ("Gate", "gate", "narrow"),
    "narrows.inner": ("InnerNarrowing",),
    "narrows.model": ("VAE", "GatedVAE", "gated_vae", "load_model", "read_description", "save_model"),
    "narrows.networks": ("NetworkConfig",),
    "narrows.own": ("OwnVAE",),
    "narrows.report.run_page": ("write_report",),
    "narrows.runs": ("Result", "RunFolder"),
    "narrows.sampling": ("Sampler",),
    "narrows.sharing": ("Pretrained",),
    "narrows.training.config": ("TrainConfig",),
    "narrows.training.entry": ("resume", "train"),
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
