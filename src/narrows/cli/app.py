"""The program's name, help and version; the other modules add its commands."""

from typing import Annotated

from cyclopts import App, Parameter

from narrows._util.console import BoundedConsole
from narrows._version import __version__

HELP = """How many latent dimensions does my data need?

narrows trains a variational autoencoder under one promise, "the error stays
at or below tau", and closes latent dimensions while it trains, as many as the
promise allows. The model it saves no longer contains them.

    narrows train                             built-in dSprites, tau = 20
    narrows train my.npy --explained 0.95     your array, table or folder of images
    narrows front my.npy --taus 5,10,20       dimensions against tau, from one run
    narrows sweep sweep.toml                  many runs: any settings as lists; also on Ray
    narrows resume runs/my-1                  continue after an interruption
    narrows show runs/my-1                    print the answer again
    narrows watch runs/my-1                   follow a run from another terminal
    narrows report runs/my-1 [runs/my-2 ...]  one page about a run, or a comparison
    narrows explore runs/my-1                 one slider per dimension, on a local page
    narrows encode runs/my-1 my.npy -o z.npy  codes; also decode, reconstruct, sample
    narrows evaluate runs/my-1                error, dimensions and samples, in numbers
    narrows export runs/my-1 --to onnx -o my  for other programs
    narrows data list                         the named sets
    narrows bench                             how fast this machine trains
    narrows reproduce table --budget 0.05     the paper's experiments
"""

TrustData = Annotated[
    bool,
    Parameter(
        negative="",
        help="Read the data that the run names even if its model has no fingerprint of them, or if they are on another "
        "machine; use it for your own runs.",
    ),
]

app = App(
    name="narrows",
    help=HELP,
    version=__version__,
    help_format="plaintext",
    version_flags=["--version"],
    console=BoundedConsole(),
    suppress_keyboard_interrupt=False,  # program.py says how to go on
)
