"""narrows as a scikit-learn transformer, used as PCA is used."""

from narrows.estimator.narrow_vae import NarrowVAE

__all__ = ["NarrowVAE"]
