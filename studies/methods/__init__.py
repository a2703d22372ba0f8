"""The methods that studies/comparison.py puts side by side, one module each.

problem     what all of them get: data, splits, network, tau, and the rules by which a size is judged
fit         training until the error settles, as `narrows train --recipe plain` does
latent      a linear map of the latent space, folded into the layers on both sides of it

narrowing   narrows, and the recipe of the paper that it implements
bisection   plain VAEs of different sizes
pca         principal components
ard         ARD-VAE
irmae       the implicit rank-minimising autoencoder
nested      nested dropout, the linear information-ordered bottleneck
fondue      FONDUE

Each module names its reference and numbers the choices that are ours; docs/comparison.md lists them.
"""

from methods import ard, bisection, fondue, irmae, narrowing, nested, pca
from methods.problem import Method

METHODS: dict[str, Method] = {
    "narrows-quick": narrowing.QUICK,
    "narrows": narrowing.NORMAL,
    "narrows-thorough": narrowing.THOROUGH,
    "paper": narrowing.PAPER,
    "bisection": bisection.METHOD,
    "pca": pca.METHOD,
    "ard": ard.METHOD,
    "irmae": irmae.METHOD,
    "nested": nested.METHOD,
    "fondue": fondue.METHOD,
}
"""Every method by the name that `--method` takes."""
