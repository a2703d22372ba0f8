"""9. `NarrowVAE`: narrows as a scikit-learn transformer, used as one uses PCA.

    codes = NarrowVAE(explained=0.95).fit_transform(X)          # as few columns as keep 95% of the variance

`X` holds one example a row, (N, D), or images, (N, H, W) or (N, H, W, C), in any unit: values are shifted and scaled
inside the model and come back in their own unit. A tenth of the rows validates (it decides what closes) and a tenth is
for the certificate (`met_`), as in every run; nothing is written to disk.

The codes are the posterior's means, ordered by cost of removal, dearest first, so that the first columns say most, as
with PCA. They are computed in the precision of the input; other rows change a row's code by rounding alone.
There is no `partial_fit`: which dimensions go is decided on all of the data, and a stream has no such moment.
"""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from narrows.data import from_array, split, thinned
from narrows.data.arrays import CHANNELS
from narrows.errors import NarrowsError
from narrows.model import VAE, standard_normal
from narrows.networks import build
from narrows.parameters import check_parameters, in_parameters, one_of, whole
from narrows.runs import Result
from narrows.sampling import COMPONENTS, KINDS, MOST_CODES, Kind, Sampler, fit_sampler
from narrows.training.common_unit import measure_unit
from narrows.training.config import TrainConfig
from narrows.training.display import Display
from narrows.training.memory import LOG_EVERY, Lines, MemoryTrainer
from narrows.training.setup import Build

ROWS = 512
"""Examples that go through the networks at a time."""
LEAST_ROWS = 10


class NarrowVAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A variational autoencoder with as few latent dimensions as keep a promise about the error.

    Parameters
    ----------
    n_components : int, optional
        Latent dimensions to start with; how many are left is the answer. By default 32, or as many as features.
    explained : float, default 0.9
        The promise: the share of the data's variance to keep, as for `PCA(0.9)`.
    tau : float, optional
        The promise as a number, used instead of `explained`: the squared error of one example, summed over features.
    recipe : "fast" or "paper"
        How dimensions are closed (docs/recipe.md).
    max_steps : int, optional
        Batches at most; by default training ends by itself.
    batch_size : int
        Examples a batch.
    network : "auto", "mlp", "conv" or callable
        auto: convolutions for images with sides of 16 to 256. A callable gets the shape of one example and the number
        of dimensions and returns a `narrows.networks.Encoder` and a `Decoder`.
    width : int
        Size of the networks.
    device : "auto", "cpu", "cuda" or "mps"
    random_state : int, RandomState or None
    verbose : bool
        Print how training goes.
    warm_start : bool
        Let the next `fit` begin with the model there is, with the dimensions it has left (not `n_components`), to go
        on with more data or a looser promise.

    Attributes
    ----------
    n_components_ : int
        Latent dimensions of the model: the answer.
    met_ : bool
        Whether the promise is kept, with 95% confidence, on the tenth of the rows that chose nothing.
    tau_ : float
        The promise as a number.
    dimension_cost_ : array, one number a dimension
        How much the squared error of one example rises when a dimension is taken away; largest first.
    mean_ : array
        Of the examples, as in PCA.
    history_ : dict of lists
        The curves: step, error, open, lambda, hits, kl and the rest of metrics.csv.
    result_ : narrows.Result
        The answer with its certificate.
    model_ : narrows.VAE
        The model, a torch module.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        explained: float = 0.9,
        tau: float | None = None,
        recipe: Literal["fast", "paper"] = "fast",
        max_steps: int | None = None,
        batch_size: int = 64,
        network: Literal["auto", "mlp", "conv"] | Build = "auto",
        width: int = 32,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        warm_start: bool = False,
    ) -> None:
        self.n_components = n_components
        self.explained = explained
        self.tau = tau
        self.recipe = recipe
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.network = network
        self.width = width
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Train on `X` and find the number of dimensions."""
        check_parameters(self.get_params(deep=False))
        x = check_array(X, dtype=[np.float64, np.float32], allow_nd=True, ensure_min_samples=0, estimator=self)
        if x.ndim > 4 or 0 in x.shape[1:]:
            raise ValueError(f"X must hold rows (N, D) or images (N, H, W) or (N, H, W, C); its shape is {x.shape}")
        if len(x) < LEAST_ROWS:
            raise ValueError(
                f"fitting takes {LEAST_ROWS} samples or more, to train, to validate and to test; n_samples={len(x)}"
            )
        before = self._begun(x) if self.warm_start else None
        try:
            unit = measure_unit(x, None if self.tau is None else float(self.tau))
            data = from_array(unit.inward(x), "any", name="X")
            config = self._config(len(split(data).train), None if before is None else before.n, unit.square)
            display = Lines(unit.square) if self.verbose else Display()
            trainer = MemoryTrainer(config, data, display, self._build(before), unit.square)
            result, model, rows = trainer.fit(before)
        except NarrowsError as error:
            raise ValueError(in_parameters(str(error))) from error
        model.scaling = unit.outward(model.scaling)
        if before is not None and before.network is not None:
            model.network = replace(before.network, n=model.n)
        validate_data(self, X, skip_check_array=True)  # from here on the estimator is the new one, not before
        self.model_ = model
        self.result_ = result
        self.shape_: tuple[int, ...] = x.shape[1:]
        self.layout_ = _layout(self.shape_)
        self.mean_ = unit.mean
        self.n_components_ = model.n
        self.met_ = result.met
        self.tau_ = result.tau
        self.dimension_cost_ = np.array([dimension.cost for dimension in result.dimensions])
        names = {"multiplier": "lambda"}
        self.history_ = {names.get(n, n): [getattr(r, n) for r in rows] for n in vars(rows[0])} if rows else {}
        self._warn(result)
        return self

    def _begun(self, x: np.ndarray) -> VAE | None:
        """Return the model to go on with; one without dimensions is of no use."""
        model: VAE | None = getattr(self, "model_", None)
        if model is None or model.n == 0:
            return None
        if self.shape_ != x.shape[1:]:
            raise ValueError(f"warm_start: the model is for examples of shape {self.shape_}; these are {x.shape[1:]}")
        if model.network is not None:
            for name, there in (("width", model.network.width), ("network", model.network.kind)):
                given = getattr(self, name)
                if given not in ("auto", there):
                    raise ValueError(
                        f"warm_start goes on with the networks there are: {name} was {there!r}, and is now {given!r}; "
                        f"put it back, or set warm_start=False"
                    )
        return model

    def _build(self, before: VAE | None) -> Build | None:
        """Return what makes the networks: the user's, or those of the model to go on with, however many rows come."""
        if callable(self.network):
            return self.network
        network = None if before is None else before.network
        return None if network is None else lambda shape, n: build(replace(network, n=n))[:2]

    def _warn(self, result: Result) -> None:
        """Say so where the answer is not what the user asked for."""
        if not result.met:
            text = (
                f"the promise is not certain on held-out rows: error {result.heldout.error:.4g}, 95% up to "
                f"{result.heldout.high:.4g}, tau {result.tau:.4g}; bring more data, ask for less, or raise max_steps"
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        elif result.dims == 0:
            text = f"0 dimensions are enough: the mean alone has an error within tau {result.tau:.4g}"
            warnings.warn(text, UserWarning, stacklevel=3)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Return the codes of `X`, `(N, n_components_)`."""
        x = self._examples(X)
        out = np.empty((len(x), self.n_components_), x.dtype)
        for part, batch, model in self._parts(x):
            out[part] = model.encode(batch).mean
        return out

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Decode codes, `(N, n_components_)`, into examples in their own unit."""
        check_is_fitted(self)
        z = check_array(X, dtype=[np.float64, np.float32], ensure_min_features=0, input_name="X")
        if z.shape[1] != self.n_components_:
            raise ValueError(f"codes have {self.n_components_} columns, one a dimension; X has {z.shape[1]}")
        out = np.empty((len(z), *self.shape_), z.dtype)
        for part, batch, model in self._parts(z):
            out[part] = self._outside(model.decode(batch))
        return out

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the share of the variance of `X` (about the mean of the training data) that reconstructions keep."""
        x = self._examples(X)
        total = float(((x - self.mean_) ** 2).sum())
        lost = 0.0
        for part, batch, model in self._parts(x):
            lost += float(((x[part] - self._outside(model.reconstruct(batch)).numpy()) ** 2).sum())
        return 1 - lost / total if total > 0 else float(lost == 0)

    def sample(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        sampler: Sampler | None = None,
    ) -> np.ndarray:
        """Return new examples, decoded from the prior, or from a sampler that `fit_sampler` made."""
        check_is_fitted(self)
        whole("n_samples", n_samples)
        state = check_random_state(random_state)
        if sampler is None:
            return self.inverse_transform(state.standard_normal((int(n_samples), self.n_components_)))
        if not isinstance(sampler, Sampler) or sampler.n != self.n_components_:
            raise ValueError(f"sampler must come from fit_sampler of this model; it is {sampler!r:.200}")
        generator = torch.Generator().manual_seed(int(state.randint(2**31 - 1)))
        return self.inverse_transform(sampler.draw(int(n_samples), generator).double().numpy())

    def fit_sampler(
        self,
        X: ArrayLike,
        kind: Kind = "mixture",
        *,
        components: int = COMPONENTS,
        random_state: int | np.random.RandomState | None = None,
    ) -> Sampler:
        """Return a sampler whose codes are like those of `X`: a "gaussian" or a "mixture" of them (sampling.py).

        It takes the data again, because the estimator keeps none; pass what it was fitted to.
        """
        x = self._examples(X)
        one_of("kind", kind, KINDS)
        whole("components", components)
        state = check_random_state(random_state)
        generator = torch.Generator().manual_seed(int(state.randint(2**31 - 1)))
        codes = np.empty((min(len(x), MOST_CODES), self.n_components_))
        for part, batch, model in self._parts(x[thinned(np.arange(len(x)), MOST_CODES)]):
            posterior = model.encode(batch)
            codes[part] = posterior.draw(standard_normal(posterior.mean, generator))
        try:
            return fit_sampler(kind, codes, int(components), int(state.randint(2**31 - 1)))
        except NarrowsError as error:
            raise ValueError(in_parameters(str(error))) from error

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.three_d_array = True
        return tags

    def _config(self, rows: int, start: int | None, square: float) -> TrainConfig:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        n = self.n_components if start is None else start
        return TrainConfig(
            data="X",
            tau=None if self.tau is None else float(self.tau) / square,
            explained=float(self.explained) if self.tau is None else None,
            n="auto" if n is None else int(n),
            steps="auto" if self.max_steps is None else int(self.max_steps),
            batch=min(int(self.batch_size), rows),
            recipe=self.recipe,
            network="mlp" if callable(self.network) else self.network,
            width=int(self.width),
            values="any",
            device=self.device,
            seed=seed,
            log_every=LOG_EVERY,
        )

    def _examples(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        x: np.ndarray = check_array(X, dtype=[np.float64, np.float32], allow_nd=True, estimator=self, input_name="X")
        images = x.ndim > 2 or len(self.shape_) > 1  # for rows scikit-learn has words of its own
        if images and x.shape[1:] != self.shape_:
            raise ValueError(f"X must hold examples of shape {self.shape_}, as in fit; these have {x.shape[1:]}")
        validate_data(self, X, reset=False, skip_check_array=True)
        return x

    def _parts(self, rows: np.ndarray) -> Iterator[tuple[slice, Tensor, VAE]]:
        """Walk through rows, or codes, some at a time, with a model of their precision."""
        model = self.model_ if rows.dtype == np.float32 else copy.deepcopy(self.model_).double()
        with torch.no_grad():
            for start in range(0, len(rows), ROWS):
                part = slice(start, start + ROWS)
                batch = torch.from_numpy(np.array(rows[part]))  # a copy: whatever its strides, and writable
                yield part, self._inside(batch), model

    def _inside(self, rows: Tensor) -> Tensor:
        """Images of a user, (N, H, W[, C]), are (N, C, H, W) inside; codes and vectors are as they are."""
        if rows.shape[1:] != self.shape_ or self.layout_ == "rows":
            return rows
        return {"grey": rows[:, None], "last": rows.movedim(-1, 1), "first": rows}[self.layout_]

    def _outside(self, rows: Tensor) -> Tensor:
        return {"rows": rows, "grey": rows[:, 0], "last": rows.movedim(1, -1), "first": rows}[self.layout_]


def _layout(shape: tuple[int, ...]) -> str:
    """Say how examples of this shape are laid out, by the rule of narrows.data.from_array."""
    if len(shape) == 3:
        return "last" if shape[-1] in CHANNELS else "first"
    return "rows" if len(shape) == 1 else "grey"
