"""How a fitted estimator is shown: in a cell of a notebook, and as the page that a run's folder has as report.html."""

import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from narrows._util.checks import new_file
from narrows._util.files import write_atomic
from narrows.data import Data
from narrows.data.arrays import channels_last
from narrows.data.examples import ArrayExamples
from narrows.data.readers.frames import read_frame
from narrows.data.sparse import SparseRows
from narrows.estimator.fitted import FittedVAE
from narrows.estimator.settings import as_value_error
from narrows.estimator.training import Records
from narrows.inference.inspect import inspect_model
from narrows.inference.trained import Trained
from narrows.report.contents import RunContents
from narrows.report.model_sections import ModelContents
from narrows.report.run_page import run_page
from narrows.runs.cell import result_cell
from narrows.runs.records import Result

HEIGHT = 640
"""Pixels of a page inside a notebook; it scrolls."""


@dataclass(frozen=True)
class InlinePage:
    """A page that a notebook shows inside a frame of its own."""

    page: str
    """The page's HTML."""

    def _repr_html_(self) -> str:
        """Return the frame; the page in it can run its own scripts, and reach neither the notebook nor the network."""
        page = self.page.replace("<head>", '<head><base href="about:srcdoc">', 1)  # or its links lead out of the frame
        return (
            f'<iframe sandbox="allow-scripts" title="A report of narrows" style="width: 100%; height: {HEIGHT}px; '
            f'border: 0" srcdoc="{html.escape(page, quote=True)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<a report of {len(self.page):,} characters; give report a path to write it to a file>"


class ShownVAE(FittedVAE):
    """A fitted model that shows itself; one that is not fitted shows scikit-learn's own diagram."""

    result_: Result
    _records: Records

    def report(self, path: str | os.PathLike[str] | None = None, X: ArrayLike | None = None) -> Path | InlinePage:
        """Write the page that a run's folder has as report.html, or show it in the notebook.

        Parameters
        ----------
        path : str or path, optional
            The .html file to write. Without it the page is returned, and a notebook shows it.
        X : array, optional
            Examples, as for `transform`, for the page to show with their reconstructions and errors; it counts all of
            them, so pass ones that `fit` did not get to see how the model does on new data.

        Returns
        -------
        page : Path or object
            The path of the file, or an object that shows the page.
        """
        check_is_fitted(self)
        with as_value_error():
            target = None if path is None else new_file("path", path)
            records = self._records
            costs = (
                None if records.first_costs is None else [c if np.isfinite(c) else None for c in records.first_costs]
            )
            run = RunContents(
                None,
                records.config,
                records.rows,
                records.decisions,
                self.result_,
                costs or [],
                " ".join(repr(self).split()),
            )
            page = run_page(run, self._contents(X)).html()
            if target is None:
                return InlinePage(page)
            write_atomic(target, page)
        return target

    def _contents(self, X: ArrayLike | None) -> ModelContents:
        """Return the model with what it does to these examples."""
        if X is not None and self.batches_:
            raise ValueError("report shows no examples of an estimator that was fitted with batches; leave X out")
        x = None if X is None else self._examples(X)
        model = self.model_ if x is None or x.dtype == np.float32 else self._precise()
        about = {**self._records.about, "shape": self._inner_shape}
        names = getattr(self, "feature_names_in_", None)
        if names is not None and not self.table_:
            about["columns"] = list(names)
        trained = Trained(Path("X"), model, about, self._records.config)
        if x is None or callable(self.error):
            missing = "Pass examples to `report` to see their reconstructions."
            return ModelContents(trained, missing=missing if x is None else "The error is a function of your own.")
        data = self._data(X, x)
        return ModelContents(trained, data, inspect_model(trained, data, None), inputs="examples of X")

    def _data(self, X: Any, x: np.ndarray | SparseRows) -> Data:
        """Return checked examples as data."""
        if isinstance(x, SparseRows):
            return Data("X", ArrayExamples(x), "any")
        if not self.table_:  # of any size: from_array wants what can be trained on as it is
            return Data("X", ArrayExamples(channels_last(x, "X")), "any", missing=int(np.isnan(x).sum()))
        masked = self.model_.network is not None and self.model_.network.masked
        return read_frame(X, "X", None, "mask" if masked else "refuse", known=self.table_)

    def _html(self) -> str:
        """Return what a notebook shows of a fitted estimator."""
        return result_cell(self.result_, self._records.rows, " ".join(repr(self).split()))

    def _repr_html_inner(self) -> str:
        """Return the answer if the estimator is fitted; scikit-learn calls this as `_repr_html_`."""
        inner: str = self._html() if self.__sklearn_is_fitted__() else super()._repr_html_inner()
        return inner

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return scikit-learn's bundle with the answer in place of its diagram."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle and self.__sklearn_is_fitted__():
            bundle["text/html"] = self._html()
        return bundle
