"""Figures in the form of scikit-learn's displays, from a fitted estimator or from what a run left on disk.

narrowing, dimensions, front   how training went, what each dimension is worth, dimensions against tau
traversals, reconstructions    what a dimension changes, and what a model loses
codes                          two dimensions of the codes
runs, fitted                   what a display takes from a run's folder, and from an estimator
drawing                        axes, and images side by side

A display holds what was computed as attributes, and `plot` draws it and keeps the artists. The numbers are those of the
report, and so are the charts.
"""

from narrows.report.displays.codes import CodesDisplay
from narrows.report.displays.dimensions import DimensionDisplay
from narrows.report.displays.front import FrontDisplay
from narrows.report.displays.narrowing import NarrowingDisplay
from narrows.report.displays.reconstructions import ReconstructionDisplay
from narrows.report.displays.traversals import TraversalDisplay

__all__ = [
    "CodesDisplay",
    "DimensionDisplay",
    "FrontDisplay",
    "NarrowingDisplay",
    "ReconstructionDisplay",
    "TraversalDisplay",
]
