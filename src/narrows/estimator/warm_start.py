"""What a `fit` begins with: the user's networks, or with `warm_start` the model of the fit before."""

from typing import Any

from narrows.estimator.training import Prepared
from narrows.model.vae import VAE
from narrows.networks import NetworkConfig
from narrows.training.build import Build


def previous_model(estimator: Any, prepared: Prepared) -> VAE | None:
    """Return the model to continue with; one without dimensions is of no use."""
    model: VAE | None = getattr(estimator, "model_", None)
    if model is None or model.n == 0:
        return None
    if estimator.shape_ != prepared.shape:
        raise ValueError(
            f"warm_start: the model is for examples of shape {estimator.shape_}; these are {prepared.shape}"
        )
    if estimator.batches_ != prepared.batches:
        raise ValueError("warm_start: the model is for other batches; pass the same, or set warm_start=False")
    if estimator.table_ != prepared.data.table:
        raise ValueError("warm_start: the model is for a table with other columns or categories; set warm_start=False")
    if prepared.data.missing and not (model.network is not None and model.network.masked):
        raise ValueError("warm_start: the model takes no missing values, and X has some; set warm_start=False")
    if model.network is not None:
        for name, there in (("width", model.network.width), ("network", model.network.kind)):
            given = getattr(estimator, name)
            if given not in ("auto", there):
                raise ValueError(
                    f"warm_start continues with the present networks: {name} was {there!r} and is now {given!r}; "
                    f"restore it, or set warm_start=False"
                )
    return model


def make_networks(estimator: Any, before: VAE | None) -> Build | NetworkConfig | None:
    """Return the factory of the user's networks, or what the networks of the model to continue with are like."""
    if callable(estimator.network):
        return estimator.network
    return None if before is None else before.network
