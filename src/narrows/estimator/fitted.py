"""What a fitted estimator does with examples and codes: the half of `NarrowVAE` that does not train."""

import copy
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from narrows._util.errors import OptionError
from narrows._util.memory import within_memory
from narrows._util.progress import steps
from narrows.data import ArrayExamples, Data, thinned
from narrows.data.arrays import CHANNELS
from narrows.data.counting import Counting
from narrows.data.counts import check_counts
from narrows.data.mixed import Column, collapse, starts_of, widths_of
from narrows.data.readers.frames import FrameKind, columns_of, fill_frame, is_frame, read_frame, to_frame
from narrows.data.readers.shared import listed
from narrows.data.sparse import SparseRows, is_sparse
from narrows.estimator.batches import joined, named, numbered, ones
from narrows.estimator.settings import as_value_error, checked_array, sparse_rows
from narrows.inference.sampling import COMPONENTS, MOST_CODES, Kind, Sampler, fit_sampler
from narrows.model.vae import VAE, standard_normal
from narrows.networks.batches import InBatches
from narrows.objective import count_values, mixed_values

GAPS = "the model was fitted to data without gaps; fit it with missing='mask' to data that have some"
ROWS = 512
"""Examples that go through the networks at a time."""


class FittedVAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Codes, reconstructions, scores and samples of a model that `NarrowVAE.fit` has trained."""

    model_: VAE
    shape_: tuple[int, ...]
    mean_: np.ndarray
    n_components_: int
    table_: tuple[Column, ...]
    """The columns of a table with categories; empty for arrays and for tables of numbers."""
    kind_: FrameKind
    batches_: tuple[str, ...] = ()
    """The batches of rows of counts that the decoder is told apart."""

    def transform(self, X: ArrayLike, n_components: int | None = None, batch: ArrayLike | None = None) -> np.ndarray:
        """Return the codes of `X`, an array of shape `(N, n_components_)`.

        Parameters
        ----------
        X : array
            Examples, as for `fit`.
        n_components : int, optional
            Return only the first ones, which say most; `inverse_transform` takes them and leaves the others at 0.
        batch : array (N,), optional
            The batch of each row, if `fit` was told batches: one of `batches_`.
        """
        x = self._examples(X, batch)
        if n_components is not None:
            check_scalar(n_components, "n_components", Integral, min_val=0, max_val=self.n_components_)
        return self._codes(x)[:, :n_components]

    def fit_transform(self, X: ArrayLike, y: None = None, batch: ArrayLike | None = None, **fit_params: Any) -> Any:
        """Fit to `X` and return its codes: the same as `fit` and `transform`."""
        if batch is None:
            return super().fit_transform(X, y, **fit_params)
        return self.fit(X, y, batch=batch, **fit_params).transform(X, batch=batch)

    def inverse_transform(
        self, X: ArrayLike, library_size: ArrayLike | None = None, batch: ArrayLike | None = None
    ) -> np.ndarray:
        """Decode codes, of all dimensions or of the first ones, (N, k), into examples in their own unit.

        Counts are decoded to expected counts: `library_size` is the total of each row, one number or one per row, by
        default the median of the rows that the estimator was fitted to. If `fit` was told batches, `batch` is one of
        `batches_`, or one per row; by default it is an average batch, the geometric mean of all.
        """
        out = self._decoded(X, batch)
        if library_size is not None:
            out *= self._library_size(library_size, len(out))[:, None] / float(self.model_.scaling.size)
        return to_frame(out, self.table_, self.kind_) if self.table_ else out

    def _codes(self, x: np.ndarray | SparseRows) -> np.ndarray:
        """Return the codes of examples that have been checked."""
        return torch.cat([model.encode(batch).mean for _, batch, model in self._parts(x)]).numpy()

    def _decoded(self, X: ArrayLike, batch: ArrayLike | None = None) -> np.ndarray:
        """Return what codes are decoded to as an array, with a block of values for each category."""
        check_is_fitted(self)
        z: np.ndarray = check_array(X, dtype=[np.float64, np.float32], ensure_min_features=0, input_name="X")
        if z.shape[1] > self.n_components_:
            raise ValueError(f"codes have {self.n_components_} columns, one per dimension; X has {z.shape[1]}")
        z = np.pad(z, ((0, 0), (0, self.n_components_ - z.shape[1])))
        of = None
        if batch is not None:
            of = torch.from_numpy(ones(self._batch_of(batch, len(z)), len(self.batches_)))
        out = np.empty((len(z), *self.shape_), z.dtype)
        for part, codes, model in self._parts(z):
            decoded: Tensor | InBatches = model.decode(codes)
            if isinstance(decoded, InBatches):
                decoded = decoded.expected if of is None else decoded.of(of[part])
            out[part] = self._outside(decoded)
        return out

    def impute(self, X: ArrayLike) -> Any:
        """Return `X` with reconstructions in place of missing values; values that were observed stay as they are.

        A data frame comes back as one, with the same columns and types, in which whole numbers are filled with whole
        numbers.
        """
        x = self._examples(X)
        if isinstance(x, SparseRows):
            raise ValueError("X is sparse, so it has no gaps to impute; pass X.toarray() if NaN is stored in it")
        gaps = np.isnan(x)
        out = np.array(x)
        for part, batch, model in self._parts(x):
            out[part][gaps[part]] = self._outside(model.reconstruct(batch)).numpy()[gaps[part]]
        if not is_frame(X):
            return out
        with as_value_error():
            spec = self.table_ or columns_of(X)
            widths = widths_of(spec)
            return fill_frame(X, collapse(out, widths), gaps[:, starts_of(out.shape[1], widths)], spec)

    def score(
        self,
        X: ArrayLike,
        y: None = None,
        sample_weight: ArrayLike | None = None,
        batch: ArrayLike | None = None,
    ) -> float:
        """Return the share of the variance of `X`, about the mean of the training data, that reconstructions keep.

        Of a table with categories it is the share of the error: numbers in their standard deviations, and categories by
        their cross-entropy, against decoding means and frequencies. Of counts it is the share of the deviance, against
        constant proportions; noise is a part of that, so it cannot reach 1 (see `explainable_`).
        Values that are missing do not count, and a row of weight 2 counts twice. `batch` is as for `transform`;
        constant proportions are then those of each batch.
        """
        x = self._examples(X, batch)
        with as_value_error():
            weights = Counting.of(len(x), sample_weight, names=("sample_weight", ""), least=1).weights
        if isinstance(x, np.ndarray) and np.isnan(x).all():
            raise ValueError("X has no value that was observed, so there is nothing to score")
        weights, total, lost = np.ones(len(x)) if weights is None else weights, 0.0, 0.0
        for part, examples, model in self._parts(x):
            decoded = self._outside(model.reconstruct(examples)).numpy()
            rows, null = self._with_null(x[part])
            total += float(weights[part] @ self._errors(rows, np.broadcast_to(null, decoded.shape)))
            lost += float(weights[part] @ self._errors(rows, decoded))
        return 1 - lost / total if total > 0 else float(lost == 0)

    def sample(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        sampler: Sampler | None = None,
        library_size: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return `n_samples` new examples, decoded from the prior or from a sampler that `fit_sampler` returned.

        Of counts these are expected counts, without noise, in rows of `library_size` as for `inverse_transform`.
        """
        check_is_fitted(self)
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        state = check_random_state(random_state)
        if sampler is None:
            with as_value_error(), within_memory(f"{n_samples} samples", "draw fewer at a time"):
                return self.inverse_transform(state.standard_normal((int(n_samples), self.n_components_)), library_size)
        if not isinstance(sampler, Sampler) or sampler.n != self.n_components_:
            raise ValueError(f"sampler must come from fit_sampler of this model; it is {sampler!r:.200}")
        generator = torch.Generator().manual_seed(int(state.randint(2**31 - 1)))
        with as_value_error():
            return self.inverse_transform(sampler.draw(int(n_samples), generator).double().numpy(), library_size)

    def fit_sampler(
        self,
        X: ArrayLike,
        kind: Kind = "mixture",
        *,
        components: int = COMPONENTS,
        random_state: int | np.random.RandomState | None = None,
        batch: ArrayLike | None = None,
    ) -> Sampler:
        """Return a sampler whose codes resemble those of `X`: a "gaussian" or a "mixture" of them.

        Pass the data that the estimator was fitted to: it does not keep them. `batch` is as for `transform`.
        """
        x = self._examples(X, batch)
        check_scalar(components, "components", Integral, min_val=1)
        state = check_random_state(random_state)
        generator = torch.Generator().manual_seed(int(state.randint(2**31 - 1)))
        some = thinned(np.arange(len(x)), MOST_CODES)
        rows = x.take(some) if isinstance(x, SparseRows) else x[some]
        posteriors = [model.encode(part) for _, part, model in self._parts(rows)]
        codes = torch.cat([p.draw(standard_normal(p.mean, generator)) for p in posteriors]).double()
        with as_value_error():
            return fit_sampler(kind, codes.numpy(), int(components), int(state.randint(2**31 - 1)))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _with_null(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows, without their batches, and what is decoded without any knowledge of them: the mean; of counts,
        the proportions."""
        scaling = self.model_.scaling
        if scaling.output != "counts":
            return rows, self.mean_
        proportion = scaling.proportion.double().numpy()
        if not self.batches_:
            return rows, proportion
        columns = proportion.shape[1]
        return rows[:, :columns], rows[:, columns:] @ proportion

    def _batch_of(self, batch: ArrayLike, rows: int) -> np.ndarray:
        """Return the number of each row's batch; one name stands for all rows."""
        if not self.batches_:
            raise ValueError("batch is for estimators that were fitted with batches; leave it out")
        given = np.asarray(batch, object)
        return numbered(named(np.repeat(given, rows) if given.ndim == 0 else given, rows), self.batches_)

    def _library_size(self, given: ArrayLike, rows: int) -> np.ndarray:
        if self.model_.scaling.output != "counts":
            raise ValueError(
                f"library_size is for models of counts, and this one has error={self.error!r}; leave it out"
            )
        try:
            size = np.broadcast_to(np.asarray(given, np.float64), (rows,))
        except (TypeError, ValueError):
            raise ValueError(f"library_size must be one number, or one for each of {rows} rows") from None
        if not (np.isfinite(size) & (size > 0)).all():
            raise ValueError(f"library_size must be finite numbers above 0; one is {size[~(size > 0)][:1]}")
        return size

    def _examples(self, X: ArrayLike, batch: ArrayLike | None = None) -> np.ndarray | SparseRows:
        check_is_fitted(self)
        if batch is None and self.batches_:
            raise ValueError(
                f"X must come with the batch of each row ({', '.join(self.batches_)}), because the estimator was "
                "fitted with batches: pass batch=... to transform or score"
            )
        if self.table_:
            return self._rows_of_table(X)
        finite: Any = "allow-nan" if self.model_.network is not None and self.model_.network.masked else True
        x: Any = checked_array(self, X, finite, GAPS, accept_sparse="csr")
        images = x.ndim > 2 or len(self.shape_) > 1  # scikit-learn checks rows itself
        if images and x.shape[1:] != self.shape_:
            raise ValueError(f"X must hold examples of shape {self.shape_}, as in fit; these have {x.shape[1:]}")
        validate_data(self, X, reset=False, skip_check_array=True)
        x = sparse_rows(x) if is_sparse(x) else x
        if self.model_.scaling.output == "counts":
            with as_value_error():
                check_counts(Data("X", ArrayExamples(x), "any"))
        return x if batch is None else joined(x, self._batch_of(batch, len(x)), len(self.batches_))

    def _rows_of_table(self, X: Any) -> np.ndarray:
        """Return a table with the columns of the fitted one as vectors, with a block for each category."""
        if not is_frame(X):
            raise ValueError(
                f"X must be a data frame with the columns that the estimator was fitted to "
                f"({listed([column.name for column in self.table_])}); it is {type(X).__name__}"
            )
        masked = self.model_.network is not None and self.model_.network.masked
        with as_value_error():
            try:
                data = read_frame(X, "X", None, "mask" if masked else "refuse", known=self.table_)
            except OptionError as error:
                raise error.otherwise from None
        rows: np.ndarray = data.exact.batch(np.arange(len(data.examples))).double().numpy()
        return rows

    def _errors(self, x: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        """Return the error of each row, float64: squares, and the cross-entropies of categories; NaN counts as 0."""
        scaling = self.model_.scaling
        if scaling.output == "counts":
            pair = (torch.from_numpy(np.array(part, np.float64)) for part in (x, decoded))
            return np.asarray(count_values(scaling.dispersion.double())(*pair).sum(1))
        if not self.table_:
            return _squares(x - decoded)
        widths = widths_of(self.table_)
        unit = torch.where(torch.arange(len(self.mean_)) < len(self.mean_) - sum(widths), scaling.scale, 1.0).double()
        of_values = mixed_values(widths, scaling.shift[-sum(widths) :])
        errors = of_values(*(torch.from_numpy(np.array(part, np.float64)) / unit for part in (x, decoded)))
        return np.asarray(errors.sum(1))

    def _parts(self, rows: np.ndarray | SparseRows) -> Iterator[tuple[slice, Tensor, VAE]]:
        """Yield rows, or codes, some at a time, with a model of their precision."""
        model = self.model_ if rows.dtype == np.float32 else self._precise()
        with torch.no_grad():
            for part in steps(len(rows), ROWS):
                batch = torch.from_numpy(np.array(rows[part]))  # a writable copy, whatever the strides
                yield part, self._inside(batch), model

    def _precise(self) -> VAE:
        """Return the model in double precision."""
        return copy.deepcopy(self.model_).double()

    @property
    def _inner_shape(self) -> tuple[int, ...]:
        """The shape of one example as the networks take it."""
        return tuple(self._inside(torch.empty(1, *self.shape_)).shape[1:])

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


def _squares(differences: np.ndarray) -> np.ndarray:
    """Return the squares summed over each row, float64; NaN counts as 0."""
    return np.nansum(np.square(differences, dtype=np.float64), axis=tuple(range(1, differences.ndim)))
