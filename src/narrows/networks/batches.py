"""Expected counts that depend on the batch a row is from."""

from typing import Any, NamedTuple

from torch import Tensor


class InBatches(NamedTuple):
    """What a code is decoded to if the decoder knows batches: expected counts, and how those of each batch differ.

    An error that is given this reads each row's batch off the row itself, whose last values say it: 1 for its own batch
    and 0 for the others.
    """

    expected: Tensor
    """Expected counts in an average batch, (rows, columns)."""
    offset: Tensor
    """Logarithm of what they are multiplied with in each batch, (batches, columns), before they are brought to the
    total that they had."""

    def of(self, batch: Tensor) -> Tensor:
        """Return the expected counts in the batch of each row, (rows, batches) of 0 and 1."""
        found = self.expected * (batch.to(self.offset.dtype) @ self.offset).exp()
        return found * (self.expected.sum(1, keepdim=True) / found.sum(1, keepdim=True))

    def matched(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the counts of x, (rows, columns), without its last values, and what is expected in their batches."""
        columns = self.expected.shape[1]
        return x[:, :columns], self.of(x[:, columns:])


def in_average_batch(decoded: Any) -> Any:
    """Return what is decoded in an average batch; whatever does not depend on the batch stays as it is."""
    return decoded.expected if isinstance(decoded, InBatches) else decoded
