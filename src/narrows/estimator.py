"""`NarrowVAE`: narrows as a scikit-learn transformer, used as PCA is used.

    codes = NarrowVAE(explained=0.95).fit_transform(X)          # as few columns as keep 95% of the variance

`X` holds one example per row, (N, D), or images, (N, H, W) or (N, H, W, C), in any unit: values are shifted and scaled
inside the model and come back in their own unit. As in every run, one tenth of the rows decides which dimensions close
and one tenth is kept for the certificate (`met_`). Nothing is written to disk.

The codes are the means of the posterior, ordered by cost of removal, largest first, so the first columns say most, as
with PCA. They are computed in the precision of the input. There is no `partial_fit`: which dimensions close is decided
on all of the data, and a stream has no such moment.
"""

import contextlib
import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from narrows._util.checks import ABOVE_ZERO, argument
from narrows._util.errors import NarrowsError, as_argument, setting
from narrows._util.memory import within_memory
from narrows._util.progress import steps
from narrows.data import from_array, split, thinned
from narrows.data.arrays import CHANNELS
from narrows.data.units import common_units
from narrows.inference.sampling import COMPONENTS, MOST_CODES, Kind, Sampler, fit_sampler
from narrows.model.vae import VAE, standard_normal
from narrows.networks import build
from narrows.recipes.registry import RECIPES, RecipeName
from narrows.runs.certificate import CONFIDENCE, FEWEST, with_bound
from narrows.runs.records import MetricRow, Result
from narrows.training.config import LARGEST, SMALLEST, TrainConfig
from narrows.training.listeners import Listener, RunStart
from narrows.training.setup import Build, make_plan
from narrows.training.sinks import MemorySink
from narrows.training.trainer import Trainer

ROWS = 512
"""Examples that go through the networks at a time."""
LEAST_ROWS = 10
LOG_EVERY = 50
"""Batches per row of `history_`."""


class NarrowVAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A variational autoencoder with as few latent dimensions as a promise about the error allows.

    Parameters
    ----------
    n_components : int, optional
        Latent dimensions at the start; the number left at the end is the answer. The default is 32, or the number of
        features if that is less.
    explained : float, default 0.9
        The promise: the share of the data's variance to keep, as for `PCA(0.9)`.
    tau : float, optional
        The promise as a number, instead of `explained`: the squared error of one example, summed over features.
    confidence : float, default 0.95
        How certain the certificate is; it is approximate, because values have no limit (docs/certificate.md).
    recipe : "fast" or "paper"
        How dimensions are closed (docs/recipe.md).
    max_steps : int, optional
        Upper limit on the number of batches; by default training ends by itself.
    batch_size : int
        Examples per batch.
    network : "auto", "mlp", "conv" or callable
        auto: convolutions for images with sides of 16 to 256. A callable takes the shape of one example and the
        number of dimensions and returns an encoder and a decoder, as `narrows.GatedVAE` takes them.
    width : int
        Size of the networks.
    device : "auto", "cpu", "cuda" or "mps"
    random_state : int, RandomState or None
    verbose : bool
        Print how training goes.
    warm_start : bool
        Begin the next `fit` with the present model and the dimensions it has left (not `n_components`), to continue
        with more data or a looser promise.

    Attributes
    ----------
    n_components_ : int
        Latent dimensions of the model: the answer.
    met_ : bool
        Whether the promise is certified on the tenth of the rows that chose nothing.
    tau_ : float
        The promise as a number.
    dimension_cost_ : array, one number per dimension
        How much the squared error of one example rises when a dimension is removed; largest first.
    explained_variance_ratio_ : array, one number per dimension
        Share of the variance that a dimension adds to those before it, measured on test rows by decoding only the
        first k dimensions; its cumulative sum is the share that k of them explain.
    mean_ : array
        Mean of the examples, as in PCA.
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
        confidence: float = CONFIDENCE,
        recipe: RecipeName = "fast",
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
        self.confidence = confidence
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
        """Train on `X` and find the number of dimensions.

        `X` holds examples in any unit, (N, D), (N, H, W) or (N, H, W, C); `y` is ignored. A ValueError names the
        parameter, the rule and the value that cannot be used.
        """
        config = self._config()
        x = check_array(
            X, dtype=[np.float64, np.float32], allow_nd=True, ensure_min_samples=0, estimator=self, input_name="X"
        )
        if x.ndim > 4 or 0 in x.shape[1:]:
            raise ValueError(f"X must hold rows (N, D) or images (N, H, W) or (N, H, W, C); its shape is {x.shape}")
        if len(x) < LEAST_ROWS:
            raise ValueError(
                f"fitting needs at least {LEAST_ROWS} samples, to train, validate and test; n_samples={len(x)}"
            )
        before = self._previous_model(x) if self.warm_start else None
        with _as_value_error():
            tau = None if self.tau is None else float(self.tau)
            units, mean = common_units(x, tau, (SMALLEST, LARGEST))
            data = from_array(units.scaled(x), "any", name="X")
            config = replace(
                config,
                tau=None if tau is None else tau / units.square,
                n=config.n if before is None else before.n,
                batch=min(config.batch, len(split(data).train)),
            )
            listener = _Printer(units.square) if self.verbose else Listener()
            trainer = Trainer(make_plan(config, data, units.square), listener, self._build(before))
            if before is not None:
                trainer.load_weights(before)
            sink = MemorySink()
            result = trainer.start(sink).in_unit(units.square)
        assert sink.model is not None
        model = sink.model.cpu()
        model.scaling = model.scaling.in_units(*units.tensors())
        if before is not None and before.network is not None:
            model.network = replace(before.network, n=model.n)
        rows = [row.in_unit(units.square) for row in sink.rows]
        validate_data(self, X, skip_check_array=True)  # from here on the estimator is the new one
        self.model_ = model
        self.result_ = result
        self.shape_: tuple[int, ...] = x.shape[1:]
        self.mean_ = mean
        self.n_components_ = model.n
        self.met_ = result.met
        self.tau_ = result.tau
        self.dimension_cost_ = np.array([dimension.cost for dimension in result.dimensions])
        falls = -np.diff(result.errors_of_first) if model.n else np.empty(0)
        self.explained_variance_ratio_ = falls / (result.variance or result.errors_of_first[0])
        columns = zip(*(vars(row).values() for row in rows), strict=True)
        self.history_ = dict(zip(MetricRow.columns(), map(list, columns), strict=False))
        self._warn(result)
        return self

    def _previous_model(self, x: np.ndarray) -> VAE | None:
        """Return the model to continue with; one without dimensions is of no use."""
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
                        f"warm_start continues with the present networks: {name} was {there!r} and is now {given!r}; "
                        f"restore it, or set warm_start=False"
                    )
        return model

    def _build(self, before: VAE | None) -> Build | None:
        """Return the factory of the networks: the user's, or one for the networks of the model to continue with."""
        if callable(self.network):
            return self.network
        network = None if before is None else before.network
        return None if network is None else lambda shape, n: build(replace(network, n=n))[:2]

    def _warn(self, result: Result) -> None:
        """Warn where the answer is not what the user asked for."""
        few = f"only {result.heldout.count} rows are for the test, and at least {FEWEST} are needed; "
        if not result.met:
            text = (
                f"the promise is not certified on held-out rows: error "
                f"{with_bound(result.heldout, result.certificate)}, tau {result.tau:.4g}; "
                f"{few if result.heldout.count < FEWEST else ''}use more data, a looser promise, or more max_steps"
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        elif result.dims == 0:
            text = f"0 dimensions are enough: the error of the mean alone is within tau {result.tau:.4g}"
            warnings.warn(text, UserWarning, stacklevel=3)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Return the codes of `X`, an array of shape `(N, n_components_)`."""
        parts = self._parts(self._examples(X))
        return torch.cat([model.encode(batch).mean for _, batch, model in parts]).numpy()

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Decode codes of shape `(N, n_components_)` into examples in their own unit."""
        check_is_fitted(self)
        z = check_array(X, dtype=[np.float64, np.float32], ensure_min_features=0, input_name="X")
        if z.shape[1] != self.n_components_:
            raise ValueError(f"codes have {self.n_components_} columns, one per dimension; X has {z.shape[1]}")
        out = np.empty((len(z), *self.shape_), z.dtype)
        for part, batch, model in self._parts(z):
            out[part] = self._outside(model.decode(batch))
        return out

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the share of the variance of `X`, about the mean of the training data, that reconstructions keep."""
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
        """Return `n_samples` new examples, decoded from the prior or from a sampler that `fit_sampler` returned."""
        check_is_fitted(self)
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        state = check_random_state(random_state)
        if sampler is None:
            with _as_value_error(), within_memory(f"{n_samples} samples", "draw fewer at a time"):
                return self.inverse_transform(state.standard_normal((int(n_samples), self.n_components_)))
        if not isinstance(sampler, Sampler) or sampler.n != self.n_components_:
            raise ValueError(f"sampler must come from fit_sampler of this model; it is {sampler!r:.200}")
        generator = torch.Generator().manual_seed(int(state.randint(2**31 - 1)))
        with _as_value_error():
            return self.inverse_transform(sampler.draw(int(n_samples), generator).double().numpy())

    def fit_sampler(
        self,
        X: ArrayLike,
        kind: Kind = "mixture",
        *,
        components: int = COMPONENTS,
        random_state: int | np.random.RandomState | None = None,
    ) -> Sampler:
        """Return a sampler whose codes resemble those of `X`: a "gaussian" or a "mixture" of them.

        Pass the data that the estimator was fitted to: it does not keep them.
        """
        x = self._examples(X)
        check_scalar(components, "components", Integral, min_val=1)
        state = check_random_state(random_state)
        generator = torch.Generator().manual_seed(int(state.randint(2**31 - 1)))
        posteriors = [model.encode(batch) for _, batch, model in self._parts(x[thinned(np.arange(len(x)), MOST_CODES)])]
        codes = torch.cat([p.draw(standard_normal(p.mean, generator)) for p in posteriors]).double()
        with _as_value_error():
            return fit_sampler(kind, codes.numpy(), int(components), int(state.randint(2**31 - 1)))

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

    def _config(self) -> TrainConfig:
        """Return the parameters as the checked settings of a run; tau follows once the unit of `X` is known."""
        with _as_value_error():
            if self.tau is not None:
                argument("tau", self.tau, ABOVE_ZERO)
            elif self.explained is None:
                raise NarrowsError(f"give a promise: {setting('explained', 0.9)}, or {setting('tau')}; both are None")
            narrowing = [name for name, recipe in RECIPES.items() if recipe.closes_gates]
            if self.recipe not in narrowing:
                raise NarrowsError(f"{setting('recipe')} must be one of {', '.join(narrowing)}; it is {self.recipe!r}")
            return TrainConfig(
                data="X",
                tau=None if self.tau is None else 1.0,
                explained=self.explained if self.tau is None else None,
                confidence=self.confidence,
                n="auto" if self.n_components is None else self.n_components,
                steps="auto" if self.max_steps is None else self.max_steps,
                batch=self.batch_size,
                recipe=self.recipe,
                network="mlp" if callable(self.network) else self.network,
                width=self.width,
                values="any",
                device=self.device,
                seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
                log_every=LOG_EVERY,
            ).checked()

    def _examples(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        x: np.ndarray = check_array(X, dtype=[np.float64, np.float32], allow_nd=True, estimator=self, input_name="X")
        images = x.ndim > 2 or len(self.shape_) > 1  # scikit-learn checks rows itself
        if images and x.shape[1:] != self.shape_:
            raise ValueError(f"X must hold examples of shape {self.shape_}, as in fit; these have {x.shape[1:]}")
        validate_data(self, X, reset=False, skip_check_array=True)
        return x

    def _parts(self, rows: np.ndarray) -> Iterator[tuple[slice, Tensor, VAE]]:
        """Yield rows, or codes, some at a time, with a model of their precision."""
        model = self.model_ if rows.dtype == np.float32 else copy.deepcopy(self.model_).double()
        with torch.no_grad():
            for part in steps(len(rows), ROWS):
                batch = torch.from_numpy(np.array(rows[part]))  # a writable copy, whatever the strides
                yield part, self._inside(batch), model

    def _inside(self, rows: Tensor) -> Tensor:
        """Return a user's images, (N, H, W[, C]), as (N, C, H, W); codes and vectors stay as they are."""
        if rows.ndim == 3:
            return rows[:, None]
        return rows.movedim(-1, 1) if rows.ndim == 4 and self._channels_last else rows

    def _outside(self, rows: Tensor) -> Tensor:
        """Return the decoder's output in the shape of the user's examples."""
        rows = rows.movedim(1, -1) if self._channels_last else rows
        return rows.reshape(len(rows), *self.shape_)

    @property
    def _channels_last(self) -> bool:
        """Whether the channels of an image are its last axis, by the rule of `narrows.data.from_array`."""
        return len(self.shape_) == 3 and self.shape_[-1] in CHANNELS


class _Printer(Listener):
    """Prints what is trained, and a line now and then, with errors in the user's unit."""

    def __init__(self, square: float) -> None:
        self.square = square

    def begin(self, run: RunStart) -> None:
        print(*run.header, sep="\n", flush=True)

    def row(self, row: MetricRow) -> None:
        if row.step % (10 * LOG_EVERY) == 0:
            print(f"batch {row.step:,}: error {row.error * self.square:.4g}, {row.open} dimensions open", flush=True)


@contextlib.contextmanager
def _as_value_error() -> Iterator[None]:
    """Raise an error of training as scikit-learn does, with settings under the names that the estimator gives them."""
    names = {"batch": "batch_size", "steps": "max_steps", "n": "n_components", "sampler": "kind"}
    try:
        yield
    except NarrowsError as error:
        text = error.spelled(lambda name, value: as_argument(names.get(name, name), value))
        raise ValueError(text) from error
