"""What the tests of the estimator share: small settings, a curved sheet, and columns with names that others chose."""

import numpy as np

from narrows.data.synthetic import curved_manifold

SMALL = {"max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"><b onclick=alert(3)>bold',
    "`code` & <i>",
    "plain",
)


def curved(count: int = 200, ambient: int = 5) -> np.ndarray:
    return curved_manifold(count, d=2, ambient=ambient, seed=0).astype(np.float64)
