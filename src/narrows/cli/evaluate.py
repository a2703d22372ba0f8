"""evaluate: how good a run's model and its samples are."""

from pathlib import Path

from narrows._util.printing import say
from narrows.cli.app import TrustData, app


@app.command
def evaluate(
    run: Path,
    /,
    *,
    against: Path | None = None,
    samples: int = 5_000,
    seed: int = 0,
    components: int | None = None,
    trust_data: TrustData = False,
) -> None:
    """Measure a run's model on its test split: error, dimensions, and how close its samples are to real examples.

    The command prints a table and writes it into RUN/evaluation.json. How close is measured by the Fréchet distance
    between features of samples and of test inputs; docs/samples.md describes the features.

    Parameters
    ----------
    run
        A run's folder.
    against
        Another run on the same data to compare with, such as a plain VAE (--recipe plain).
    samples
        Samples to draw from each sampler.
    seed
        The seed of samples, mixture and classifier.
    components
        Components of the mixture; by default 10, or fewer where the training split is small.
    """
    from narrows.evaluation.evaluate import evaluate
    from narrows.report.evaluation import evaluation_table
    from narrows.report.live.listeners import show_loading

    with show_loading() as progress:
        evaluation = evaluate(run, against, samples, seed, components, progress=progress, trust_data=trust_data)
    path = evaluation.write(run)
    say(f"{evaluation_table(evaluation)}\n\n{path}")
