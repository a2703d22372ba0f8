"""evaluate."""

from contextlib import closing
from pathlib import Path

from narrows.cli.app import app


@app.command
def evaluate(
    run: Path, /, *, against: Path | None = None, samples: int = 5_000, seed: int = 0, components: int | None = None
) -> int:
    """Measure a run's model on its test split: error, dimensions, and how near its samples are to real examples.

    Prints a table and writes it into RUN/evaluation.json. How near: the Fréchet distance between features of samples
    and of test inputs; docs/samples.md says which features.

    Parameters
    ----------
    run
        A run's folder.
    against
        Another run on the same data to put beside it, such as a plain VAE (--recipe plain).
    samples
        How many are drawn from each sampler.
    seed
        Of samples, mixture and classifier.
    components
        Of the mixture; by default 10, or fewer where the training split is small.
    """
    from narrows import evaluating
    from narrows.evaluation import write_evaluation
    from narrows.report.evaluation import evaluation_table
    from narrows.report.live import make_loading

    with closing(make_loading()) as loading:
        found = evaluating.evaluate(run, against, samples, seed, components, progress=loading)
    path = write_evaluation(run, found)
    print(f"{evaluation_table(found)}\n\n{path}")
    return 0
