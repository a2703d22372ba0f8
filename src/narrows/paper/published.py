"""The numbers that the paper prints, each with its place in the paper.

De Boom, Wauthier, Verbelen and Dhoedt, "Dynamic Narrowing of VAE Bottlenecks Using GECO and L0 Regularization". Errors
are squared differences summed over an image. The paper prints no spread and no number of seeds. Places where it
disagrees with itself:

- Experiment 3 has tau = 20 in the text and tau = 25 in the caption of its figure.
- The KL term is written with sigma where the formula needs the variance (docs/algorithm.md, D2).
- "MSE" is written as an L2 norm; the numbers are sums of squares.
"""

from dataclasses import dataclass

from narrows.paper.plan import Name

PLACES: dict[Name, str] = {
    "training": "Experiments, training behaviour: the text on figure 1",
    "front": "Experiments, the information bottleneck: the text on the Pareto front",
    "reconstructions": (
        "Experiments, reconstruction qualities: the text (the figure's caption has tau = 25 instead of 20)"
    ),
    "table": "Experiments, compression efficiency: the table",
}
"""Where the paper prints the numbers of an experiment."""
OPEN_WHILE_TRAINING = {10_000: 9, 20_000: 6, 25_000: 5}
"""Experiment 1, dSprites, n = 10, tau = 20: open gates after so many batches; after 40,000 they oscillate."""
FRONT = {3: 27, 30: 2}
"""Experiment 2, MNIST, n = 32: dimensions by tau. The values between are only in the figure, falling all the way."""
RECONSTRUCTIONS = {20: 5, 35: 3}
"""Experiment 3, dSprites, n = 10: dimensions by tau."""


@dataclass(frozen=True)
class Efficiency:
    """One line of experiment 4's table."""

    error: float
    """Of the plain VAE with n dimensions after 200,000 batches."""
    open: tuple[int, int, int]
    """Gates of the VAE with 2n after 200,000, 300,000 and 400,000 batches."""


TABLE = {
    ("dsprites", 5): Efficiency(9.48, (7, 6, 6)),
    ("dsprites", 10): Efficiency(8.83, (7, 6, 6)),
    ("dsprites", 30): Efficiency(6.14, (13, 12, 10)),
    ("cars3d", 5): Efficiency(94.42, (6, 5, 5)),
    ("cars3d", 10): Efficiency(65.67, (14, 13, 12)),
    ("cars3d", 30): Efficiency(60.97, (21, 17, 16)),
    ("shapes3d", 5): Efficiency(36.73, (6, 6, 6)),
    ("shapes3d", 10): Efficiency(19.53, (9, 9, 9)),
    ("shapes3d", 30): Efficiency(18.74, (20, 15, 11)),
    ("mnist", 5): Efficiency(17.07, (5, 5, 5)),
    ("mnist", 10): Efficiency(9.49, (10, 9, 9)),
    ("mnist", 30): Efficiency(7.16, (14, 14, 14)),
    ("cifar100", 5): Efficiency(325.87, (6, 6, 6)),
    ("cifar100", 10): Efficiency(249.1, (10, 10, 10)),
    ("cifar100", 30): Efficiency(147.8, (31, 30, 30)),
}
"""Experiment 4, by set and n."""
