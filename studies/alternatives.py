"""What PCA and two estimators of intrinsic dimension answer where the answer is known.

python studies/alternatives.py      five to ten minutes on one core, nearly all of it for the runs of narrows

The points are those of known_answers.py: 20,000 on a curved d-dimensional manifold in R^50, d = 2, 3, 5, 8, five seeds.
They are used as they are, and again with Gaussian noise whose standard deviation is 1% of the average column's. The
columns of a row:

    pca      the components that explain 95%, 96% and 99% of the variance
    twonn    TwoNN (Facco, d'Errico, Rodriguez and Laio, 2017): N / sum of log(r2 / r1) over the points
    mle      Levina and Bickel (2004) with 10 and with 20 neighbours; the points' inverse estimates are averaged, as
             MacKay and Ghahramani (2005) advise
    narrows  the dimensions, and whether tau is met on test data, with the settings of known_answers.py; for the points
             without noise they are that study's rows

where r_j is the distance from a point to its j-th nearest neighbour. Writes studies/results/alternatives.csv.
"""

from itertools import product

import numpy as np
from common import Row, Table, run
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from narrows._util.allocator import keep_memory
from narrows.data.synthetic import curved_manifold
from narrows.training.config import TrainConfig

DIMENSIONS, NOISES, SEEDS = (2, 3, 5, 8), (0, 0.01), range(5)
SHARES = (0.95, 0.96, 0.99)
NEIGHBOURS = (10, 20)


def twonn(distances: np.ndarray) -> float:
    """Return the TwoNN estimate (maximum likelihood) from the (N, k) sorted distances to the nearest neighbours."""
    return float(1 / np.log(distances[:, 1] / distances[:, 0]).mean())


def mle(distances: np.ndarray, k: int) -> float:
    """Return the estimate of Levina and Bickel with k neighbours from the (N, >= k) sorted distances."""
    return float(1 / np.log(distances[:, k - 1 : k] / distances[:, : k - 1]).mean())


def narrowed(x: np.ndarray, d: int, noise: float, seed: int) -> Row:
    """Return the answer of narrows; the points without noise are those of known_answers.py."""
    if not noise:
        rows = Table("known_answers").rows
        return next(row for row in rows if (row["d"], row["unit"], row["seed"]) == (str(d), "1", str(seed)))
    return run(TrainConfig(explained=0.96, n=16, seed=seed, threads=1, device="cpu", values="any"), x)


def compare(d: int, noise: float, seed: int) -> Row:
    """Return what each method answers for one set of points."""
    x = curved_manifold(20_000, d=d, ambient=50, seed=seed)
    x += np.random.default_rng(seed).normal(scale=noise * x.std(0).mean(), size=x.shape).astype(np.float32)
    explained = np.cumsum(PCA().fit(x).explained_variance_ratio_)
    # Without an argument, `kneighbors` does not count a point as its own neighbour.
    distances, _ = NearestNeighbors(n_neighbors=max(NEIGHBOURS)).fit(x.astype(np.float64)).kneighbors()
    others = {
        **{f"pca_{share:g}": int(np.searchsorted(explained, share)) + 1 for share in SHARES},
        "twonn": f"{twonn(distances):.2f}",
        **{f"mle_{k}": f"{mle(distances, k):.2f}" for k in NEIGHBOURS},
    }
    answer = narrowed(x, d, noise, seed)
    return {**others, "narrows": answer["dims"], "met": answer["met"]}


def main() -> None:
    """Run what is missing and print the range of each answer over the seeds."""
    keep_memory()
    table = Table("alternatives")
    for noise, d, seed in product(NOISES, DIMENSIONS, SEEDS):
        table.run(lambda d=d, noise=noise, seed=seed: compare(d, noise, seed), d=d, noise=noise, seed=seed)  # type: ignore[misc]
    for noise, d in product(NOISES, DIMENSIONS):
        rows = [row for row in table.rows if (row["noise"], row["d"]) == (str(noise), str(d))]
        columns = [name for name in rows[0] if name.startswith(("pca", "twonn", "mle"))]
        answers = {name: sorted(float(row[name]) for row in rows) for name in (*columns, "narrows")}
        shown = ", ".join(f"{name} {values[0]:g} to {values[-1]:g}" for name, values in answers.items())
        print(f"d = {d}, noise {noise:g}: {shown}; met {sum(row['met'] == 'True' for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
