"""What a `fit` begins with: the user's networks, or with `warm_start` the model of the fit before."""

from dataclasses import replace
from typing import Any

from narrows.model.vae import VAE
from narrows.networks import build
from narrows.training.setup import Build


def previous_model(estimator: Any, shape: tuple[int, ...]) -> VAE | None:
    """Return the model to continue with; one without dimensions is of no use."""
    model: VAE | None = getattr(estimator, "model_", None)
    if model is None or model.n == 0:
        return None
    if estimator.shape_ != shape:
        raise ValueError(f"warm_start: the model is for examples of shape {estimator.shape_}; these are {shape}")
    if model.network is not None:
        for name, there in (("width", model.network.width), ("network", model.network.kind)):
            given = getattr(estimator, name)
            if given not in ("auto", there):
                raise ValueError(
                    f"warm_start continues with the present networks: {name} was {there!r} and is now {given!r}; "
                    f"restore it, or set warm_start=False"
                )
    return model


def make_networks(estimator: Any, before: VAE | None) -> Build | None:
    """Return the factory of the networks: the user's, or one for the networks of the model to continue with."""
    if callable(estimator.network):
        return estimator.network
    network = None if before is None else before.network
    return None if network is None else lambda shape, n: build(replace(network, n=n))[:2]
