"""The program's name, help and version; the other files add its commands."""

from cyclopts import App

from narrows._version import __version__

HELP = """How many latent dimensions does my data need?

narrows trains a variational autoencoder under one promise, "the error stays
at or below tau", and closes latent dimensions while it trains, as many as the
promise allows; they are cut out of the model that is saved.

    narrows train                             built-in dSprites, tau = 20
    narrows train my.npy --explained 0.95     your array, table, folder of images
    narrows front my.npy --taus 5,10,20       the curve: dimensions against tau
    narrows reproduce table --budget 0.05     the paper's experiments again
    narrows encode runs/my-1 my.npy -o z.npy  codes; also decode, reconstruct, sample
    narrows evaluate runs/my-1                error, dimensions and samples, in numbers
    narrows export runs/my-1 --to onnx -o my  for other programs
    narrows data list                         the sets known by name
    narrows watch runs/my-1                   the curves of a run at work, from another terminal
    narrows show runs/my-1                    the answer again
    narrows report runs/my-1 [runs/my-2 ...]  everything as one page; of several, a comparison
    narrows explore runs/my-1                 sliders for its dimensions, on a local page
    narrows resume runs/my-1                  go on after an interruption
"""

app = App(name="narrows", help=HELP, version=__version__, help_format="plaintext", version_flags=["--version"])
