"""`NarrowVAE`: narrows as a scikit-learn transformer, used as PCA is used.

    codes = NarrowVAE(explained=0.95).fit_transform(X)          # as few columns as keep 95% of the variance

`X` holds one example per row, (N, D), or images, (N, H, W) or (N, H, W, C), in any unit: values are shifted and scaled
inside the model and come back in their own unit. As in every run, one tenth of the rows decides which dimensions close
and one tenth is kept for the certificate (`met_`). Nothing is written to disk.

The codes are the means of the posterior, ordered by cost of removal, largest first, so the first columns say most, as
with PCA. They are computed in the precision of the input. There is no `partial_fit`: which dimensions close is decided
on all of the data, and a stream has no such moment.
"""

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data
from torch import Tensor

from narrows._util.errors import NarrowsError, setting
from narrows.data.dataset import Categories, Missing
from narrows.data.readers.frames import FrameKind, is_frame, is_numeric
from narrows.estimator.callbacks import Callbacks, CallbackSupportMixin, with_callbacks
from narrows.estimator.progress import make_progress
from narrows.estimator.settings import LOG_EVERY, PROMISES, as_value_error, missing_of
from narrows.estimator.shown import ShownVAE
from narrows.estimator.training import Found, Prepared, checked, prepare, prepare_table, train_in_memory
from narrows.estimator.warm_start import make_networks, previous_model
from narrows.model.vae import VAE
from narrows.objective import COUNT_ERRORS
from narrows.recipes.registry import RecipeName
from narrows.runs.answer import plural, stopped, unit_of
from narrows.runs.certificate import CONFIDENCE, FEWEST, with_bound
from narrows.runs.records import Result, as_history
from narrows.training.build import Build
from narrows.training.front import checked_taus
from narrows.training.listeners import Listener, Listeners

ErrorName = Literal["squared", "absolute", "cross-entropy", "poisson", "negative-binomial"]
"""The errors that have names."""


class NarrowVAE(CallbackSupportMixin, ShownVAE):  # type: ignore[misc]
    """A variational autoencoder with as few latent dimensions as a promise about the error allows.

    Parameters
    ----------
    n_components : int, optional
        Latent dimensions at the start; the number left at the end is the answer. The default is 32, or the number of
        features if that is less.
    explained : float, default 0.9
        The promise: the share of the data's variance to keep, as for `PCA(0.9)`.
    tau, tau_per_value : float, optional
        The promise as a number, instead of `explained`: the error of one example, summed over features; or that
        divided by the number of features.
    as_good_as : int, optional
        The promise by example, instead of `explained`: as good as a plain VAE with this many dimensions, which is
        trained first.
    error : "squared", "absolute", "cross-entropy", "poisson", "negative-binomial" or callable
        What the promise is about. Cross-entropy is for values in [0, 1]. The last two are deviances, for rows of counts
        with library sizes (docs/counts.md); `explained` is then the share of what is not noise. A callable takes
        examples and their reconstructions, two tensors `(batch, *shape)` in the unit of `X` (images with channels
        first), and returns one number per example; it needs `tau`.
    categories : "refuse" or "auto"
        For data frames (pandas, polars, pyarrow): auto makes categories of columns of texts, and of true and false;
        columns of a categorical type always are. A table with categories has its numbers standardised, and each column
        costs 1 if only its mean, or its frequencies, are known; decoded tables have the columns and types of `X`.
    missing : "refuse" or "mask"
        mask: NaN stands for a value that was not observed. The error, `tau_` and the certificate then count observed
        values only, and `impute` fills in the others.
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
        Show how training goes: a bar on a terminal or in a notebook that has ipywidgets, lines elsewhere.
    warm_start : bool
        Begin the next `fit` with the present model and the dimensions it has left (not `n_components`), to continue
        with more data or a looser promise. A second `fit` on the same data then trains further, and finds another
        model than the first.

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
    feature_cost_ : array, features x dimensions
        What each dimension says about each feature: how much the feature's error rises without it. The sum over
        features is `dimension_cost_`. Only for rows (N, D), and named errors.
    explained_variance_ratio_ : array, one number per dimension
        Share of the variance that a dimension adds to those before it, measured on test rows by decoding only the
        first k dimensions; its cumulative sum is the share that k of them explain. For other errors than the squared
        one, the share of the error that remains without any dimension.
    mean_ : array
        Mean of the examples, as in PCA.
    batches_ : tuple of str
        The batches that `fit` was told of, in the order of the rows of `model_.scaling.offset`; empty without.
    explainable_ : float
        For counts, the estimated share of the deviance that is not noise: the `score` of the true rates. A code is
        read off its own row and fits some of its noise too, so a `score` can be higher.
    history_ : dict of lists
        The curves: step, error, open, lambda, hits, kl and the rest of metrics.csv.
    result_ : narrows.Result
        The answer with its certificate; `result_.stopped` says whether training was ended by hand.
    model_ : narrows.VAE
        The model, a torch module.
    front_ : dict
        After `front`: a fitted estimator for each tau.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        explained: float = 0.9,
        tau: float | None = None,
        tau_per_value: float | None = None,
        as_good_as: int | None = None,
        error: ErrorName | Callable[[Tensor, Tensor], Tensor] = "squared",
        missing: Missing = "refuse",
        categories: Categories = "refuse",
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
        self.tau_per_value = tau_per_value
        self.as_good_as = as_good_as
        self.error = error
        self.missing = missing
        self.categories = categories
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

    def fit(
        self,
        X: ArrayLike,
        y: None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        batch: ArrayLike | None = None,
    ) -> Self:
        """Train on `X` and find the number of dimensions.

        Ctrl-C ends training after the present batch and keeps what was found by then, with a warning; a second one, or
        one before the first batch, is a KeyboardInterrupt and leaves the estimator as it was.

        Parameters
        ----------
        X : array (N, D), (N, H, W) or (N, H, W, C), scipy sparse matrix (N, D), or data frame
            Examples in any unit. A sparse matrix is trained on batch by batch, with the same result as its array. A
            data frame of pandas or polars, or a table of pyarrow, may have categories.
        y : None
            Ignored.
        sample_weight : array (N,), optional
            How much each row counts, from 0 on. Error, `tau_`, mean and explained variance are then weighted, and what
            is certified is the mean error over the population that the weights describe.
        groups : array (N,), optional
            The group of each row: a subject, a plate, a video. A group is never divided between training, validation
            and test, and the certificate counts groups, not rows. Leave it out only if rows are independent.
        batch : array (N,), optional
            For counts, the batch that each row is from: numbers or texts, from 2 to 50 of them. The decoder is told, so
            that codes need not say it (docs/counts.md); `transform` and `score` then need it too.

        Raises
        ------
        ValueError
            The text names the parameter, the rule and the value that cannot be used.
        """
        interrupted = self._fit(X, y, sample_weight, groups, batch)
        if interrupted:
            text = f"{stopped(self.result_)}; call fit again to search to the end"
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        self._warn(self.result_)
        return self

    @with_callbacks  # type: ignore[untyped-decorator]
    def _fit(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        batch: ArrayLike | None,
    ) -> bool:
        """Train and become the fitted estimator; return whether Ctrl-C ended training."""
        prepared = self._prepared(X, sample_weight, groups, batch)
        before = previous_model(self, prepared) if self.warm_start else None
        if before is not None:
            prepared = replace(prepared, config=replace(prepared.config, n=before.n))
        callbacks = Callbacks(
            self,
            _rows_of_history(prepared),
            lambda model: self._with(X, prepared, model),
            X=X,
            y=y,
            metadata=None if sample_weight is None else {"sample_weight": sample_weight},
        )
        with as_value_error():
            found = train_in_memory(
                prepared,
                Listeners(self._listener(prepared), callbacks),
                make_networks(self, before),
                before,
                interruptible=True,
                watch=callbacks.watch,
            )
        self._take(X, prepared, found)
        callbacks.close()
        return found.result.stopped and not callbacks.stopped

    def front(
        self,
        X: ArrayLike,
        taus: Sequence[float],
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> dict[float, Self]:
        """Find the number of dimensions for several promises in one run, and return a fitted estimator for each.

        The smallest tau comes first; the search for the next one continues where that of the one before ended, so all
        of them together take little longer than the smallest. The answer is kept as `front_`; the estimator itself
        stays as it was.

        Parameters
        ----------
        X : array
            Examples, as for `fit`.
        taus : sequence of float
            The promises, in the unit of the error, instead of the estimator's own.
        sample_weight, groups : arrays, optional
            As for `fit`.
        """
        single: Self = copy.copy(self).set_params(explained=None, warm_start=False, **dict.fromkeys(PROMISES))
        with as_value_error():
            if self.warm_start:
                raise NarrowsError(f"{setting('warm_start')} is for fit; a front begins with networks of its own")
            levels = _rising(taus)
        fitted: dict[float, Self] = {}
        settled: dict[str, Any] | None = None
        for tau in levels:
            one: Self = copy.copy(single).set_params(tau=tau)
            prepared = one._prepared(X, sample_weight, groups)
            with as_value_error():
                checked_taus(replace(prepared.config, tau=None), [1.0])
                listener = self._listener(prepared)
                found = train_in_memory(
                    prepared, listener, make_networks(self, None), settled=settled, keep_settled=True
                )
            settled = found.settled or settled
            one._take(X, prepared, found)
            one._warn(found.result)
            fitted[tau] = one
        self.front_: dict[float, Self] = fitted
        return fitted

    def _prepared(
        self,
        X: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        batch: ArrayLike | None = None,
    ) -> Prepared:
        """Check X and return it as it is trained."""
        if is_frame(X) and not is_numeric(X, self.categories):
            missing_of(self)
            if (prepared := prepare_table(self, X, sample_weight, groups)) is not None:
                if batch is not None:
                    raise ValueError("batch is for counts, and X has categories; leave it out")
                return prepared
        return prepare(self, checked(self, X), sample_weight, groups, batch)

    def _take(self, X: ArrayLike, prepared: Prepared, found: Found) -> None:
        """Become the estimator that was fitted."""
        self._take_model(X, prepared, found.model)
        result = found.result
        if result.feature_costs and not result.columns and hasattr(self, "feature_names_in_"):
            result = replace(result, columns=list(self.feature_names_in_))
        self.result_ = result
        self._records = found.records
        self.met_ = result.met
        self.tau_ = result.tau
        self.dimension_cost_ = np.array([dimension.cost for dimension in result.dimensions])
        # Where 0 is decoded to need not be the mean.
        nothing = result.variance or result.null_deviance or result.errors_of_first[0]
        self.explained_variance_ratio_ = -np.diff([nothing, *result.errors_of_first[1:]]) / nothing
        if result.feature_costs:
            self.feature_cost_ = np.array(result.feature_costs)
        elif hasattr(self, "feature_cost_"):
            del self.feature_cost_
        if result.explainable is not None and result.null_deviance:
            self.explainable_ = result.explainable / result.null_deviance
        elif hasattr(self, "explainable_"):
            del self.explainable_
        self.history_ = as_history(found.records.rows)

    def _take_model(self, X: ArrayLike, prepared: Prepared, model: VAE) -> None:
        """Have this model, of these data."""
        self.table_ = prepared.data.table
        if self.table_:
            self.kind_ = FrameKind.of(X)
            self.feature_names_in_ = np.array([column.name for column in self.table_], object)
            self.n_features_in_ = len(self.table_)
        else:
            validate_data(self, X, skip_check_array=True)
        self.model_ = model
        self.shape_ = prepared.shape
        self.mean_ = prepared.mean
        self.batches_ = prepared.batches
        self.n_components_ = model.n

    def _with(self, X: ArrayLike, prepared: Prepared, model: VAE) -> dict[str, Any]:
        """Return the attributes that an estimator with this model needs to transform and to score."""
        other = copy.copy(self)
        other._take_model(X, prepared, model)
        return other.__dict__

    def _listener(self, prepared: Prepared) -> Listener:
        return make_progress(self.verbose, prepared.square)

    def _warn(self, result: Result) -> None:
        """Warn where the answer is not what the user asked for."""
        count = result.heldout.count
        there = f"{plural(count, 'group' if unit_of(result) == 'group' else 'row')} {'is' if count == 1 else 'are'}"
        few = f"only {there} for the test, and at least {FEWEST} are needed; "
        if not result.met:
            text = (
                f"the promise is not certified on held-out rows: error "
                f"{with_bound(result.heldout, result.certificate)}, tau {result.tau:.4g}; "
                f"{few if count < FEWEST else ''}use more data, a looser promise, or more max_steps"
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        elif result.dims == 0:
            text = f"0 dimensions are enough: the error of the mean alone is within tau {result.tau:.4g}"
            warnings.warn(text, UserWarning, stacklevel=3)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = self.missing != "mask"  # what a sparse matrix leaves out is 0, not missing
        tags.input_tags.positive_only = self.error in COUNT_ERRORS
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.non_deterministic = bool(self.warm_start)  # what fit finds depends on the fit before
        return tags


def _rows_of_history(prepared: Prepared) -> int | None:
    """Return how many rows `history_` will have at most; None if that is not known."""
    steps = prepared.config.steps
    return None if steps == "auto" else math.ceil(steps / LOG_EVERY)


def _rising(taus: Sequence[float]) -> list[float]:
    """Return the taus of a front in rising order."""
    try:
        found = sorted({float(tau) for tau in taus})
    except (TypeError, ValueError, OverflowError):
        found = []
    if not found or not all(0 < tau < float("inf") for tau in found):
        raise NarrowsError(f"{setting('taus')} must be one or more numbers above 0; they are {taus!r:.200}")
    return found
