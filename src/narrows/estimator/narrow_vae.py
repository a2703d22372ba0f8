"""`NarrowVAE`: narrows as a scikit-learn transformer, used as PCA is used.

    codes = NarrowVAE(explained=0.95).fit_transform(X)          # as few columns as keep 95% of the variance

`X` holds one example per row, (N, D), or images, (N, H, W) or (N, H, W, C), in any unit: values are shifted and scaled
inside the model and come back in their own unit. As in every run, one tenth of the rows decides which dimensions close
and one tenth is kept for the certificate (`met_`). Nothing is written to disk.

The codes are the means of the posterior, ordered by cost of removal, largest first, so the first columns say most, as
with PCA. They are computed in the precision of the input. There is no `partial_fit`: which dimensions close is decided
on all of the data, and a stream has no such moment.
"""

import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, validate_data

from narrows.data import from_array, split
from narrows.data.units import common_units
from narrows.estimator.fitted import FittedVAE
from narrows.estimator.settings import LOG_EVERY, as_value_error, settings_of
from narrows.model.vae import VAE
from narrows.networks import build
from narrows.recipes.registry import RecipeName
from narrows.runs.certificate import CONFIDENCE, FEWEST, with_bound
from narrows.runs.records import MetricRow, Result
from narrows.training.config import LARGEST, SMALLEST
from narrows.training.listeners import Listener, RunStart
from narrows.training.setup import Build, make_plan
from narrows.training.sinks import MemorySink
from narrows.training.trainer import Trainer

LEAST_ROWS = 10


class NarrowVAE(FittedVAE):
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
        config = settings_of(self)
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
        with as_value_error():
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.three_d_array = True
        return tags


class _Printer(Listener):
    """Prints what is trained, and a line now and then, with errors in the user's unit."""

    def __init__(self, square: float) -> None:
        self.square = square

    def begin(self, run: RunStart) -> None:
        print(*run.header, sep="\n", flush=True)

    def row(self, row: MetricRow) -> None:
        if row.step % (10 * LOG_EVERY) == 0:
            print(f"batch {row.step:,}: error {row.error * self.square:.4g}, {row.open} dimensions open", flush=True)
