"""scikit-learn's callbacks (`set_callbacks`, from version 1.9 on) during `NarrowVAE.fit`.

`fit` is the task, and every row of `history_` is a subtask of it: 50 batches. At its end a callback may ask for a
fitted estimator, which has the model of that moment, and may stop the training. With older versions of scikit-learn
there is no `set_callbacks`, and nothing of this happens.
"""

from collections.abc import Callable
from typing import Any

from narrows.estimator.settings import LOG_EVERY
from narrows.estimator.training import Training
from narrows.model.vae import VAE
from narrows.runs.records import MetricRow
from narrows.training.listeners import Listener

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Tells nobody."""

        def _init_callback_context(self, max_subtasks: int | None = 0) -> "Unheard":
            return Unheard()

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


class Unheard:
    """A task that has no callbacks."""

    def subcontext(self, task_name: str) -> "Unheard":
        """Return a part of the task."""
        return self

    def call_on_fit_task_begin(self, **given: Any) -> None:
        """Do nothing."""

    def call_on_fit_task_end(self, **given: Any) -> bool:
        """Do not stop."""
        return False


__all__ = ["CallbackSupportMixin", "Callbacks", "with_callbacks"]


class Callbacks(Listener):
    """Tells an estimator's callbacks how training goes.

    Arguments:
        estimator: The estimator that is being fitted.
        most: The number of rows there will be at most; None if it is unknown.
        fitted: Returns the attributes of the estimator if it had this model.
        given: What `fit` was given: X, y and metadata.
    """

    def __init__(self, estimator: Any, most: int | None, fitted: Callable[[VAE], dict[str, Any]], **given: Any) -> None:
        self.estimator, self.fitted, self.given = estimator, fitted, given
        self.most, self.begun = most, 0
        self.training: Training | None = None
        self.stopped = False
        """Whether a callback ended the training."""
        self.fit = estimator._init_callback_context(max_subtasks=most)
        self.fit.call_on_fit_task_begin(estimator=estimator, **given)
        self.part: Any = None
        """The subtask that has begun and not ended."""

    def watch(self, training: Training) -> None:
        """Begin the first subtask of a training."""
        self.training = training
        self._begin_part()

    def row(self, row: MetricRow) -> None:
        """End the subtask of these batches, and begin the next one if there may be one."""
        if self.part is None:
            return
        part, self.part = self.part, None
        if part.call_on_fit_task_end(
            estimator=self.estimator, reconstruction_attributes=self._attributes, **self.given
        ):
            assert self.training is not None
            self.stopped = True
            self.training.stop()
        elif self.most is None or self.begun < self.most:
            self._begin_part()

    def close(self) -> None:
        """End the whole task: the estimator is fitted."""
        if self.part is not None:  # began after the last row, and has no batches
            self.part.call_on_fit_task_end(estimator=self.estimator)
        self.fit.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes={}, **self.given)

    def _begin_part(self) -> None:
        self.begun += 1
        self.part = self.fit.subcontext(task_name=f"{LOG_EVERY} batches")
        self.part.call_on_fit_task_begin(estimator=self.estimator, **self.given)

    def _attributes(self) -> dict[str, Any]:
        assert self.training is not None
        return self.fitted(self.training.model())
