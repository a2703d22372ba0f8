"""What was evaluated, as a table: one column a model."""

from narrows.evaluation import Evaluation, Measured
from narrows.report.words import plural
from narrows.sampling import MOST_CODES

LABEL = 34
"""Width of the first column."""
ENOUGH = 10
"""Examples a feature; with fewer, covariances are mostly chance."""


def evaluation_table(evaluation: Evaluation) -> str:
    """Return the table, and below it what its numbers mean."""
    e = evaluation
    models = [model for model in (e.run, e.against) if model is not None]
    rows = [
        ("", [model.run for model in models]),
        ("dimensions", [str(model.dims) for model in models]),
        *_errors(models),
        ("KL, nats an input", [f"{sum(unit.kl for unit in model.units):.4g}" for model in models]),
        ("active units", [f"{model.active} of {model.dims}" for model in models]),
        ("Fréchet distance to the test split", [""] * len(models)),
        ("  real examples, from training", [f"{e.real:.4g}"] * len(models)),
        ("  reconstructions", [f"{model.reconstructions:.4g}" for model in models]),
        *((f"  {_sampler(kind, e)}", [f"{model.samples[kind]:.4g}" for model in models]) for kind in e.run.samples),
    ]
    widths = [max(len(cells[j]) for _, cells in rows) for j in range(len(models))]
    lines = [f"{e.data}: {plural(e.test, 'test input')}, {e.count:,} samples of each sampler, seed {e.seed}"]
    for label, cells in rows:
        padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{label:<{LABEL}}  {padded}".rstrip())
    lines += [f"features: {e.features}", f"gaussian and mixture: fitted to the codes of {_training(e)}"]
    fewest = min(e.test, e.count, e.real_count)
    if fewest < ENOUGH * e.width:
        lines.append(
            f"{fewest:,} examples are few for {plural(e.width, 'feature')}: chance alone makes distances large; "
            f"read them beside that of real examples"
        )
    for model in models:
        lines += ["", *_units(model)]
    return "\n".join(lines)


def _errors(models: list[Measured]) -> list[tuple[str, list[str]]]:
    kinds = {model.error for model in models}
    label = f"{models[0].error} error (95%)" if len(kinds) == 1 else "error (95%)"
    cells = []
    for model in models:
        held, kind = model.heldout, "" if len(kinds) == 1 else f" {model.error}"
        cells.append(f"{held.error:.4g} ({held.low:.4g} to {held.high:.4g}){kind}")
    taus = ["none" if model.tau is None else f"{model.tau:g}" for model in models]
    return [(label, cells), ("  decoding the mean", [f"{m.heldout.error_at_mean:.4g}" for m in models]), ("tau", taus)]


def _sampler(kind: str, e: Evaluation) -> str:
    return {"prior": "samples: prior N(0, 1)", "mixture": f"samples: mixture of {e.components}"}.get(
        kind, f"samples: {kind}"
    )


def _training(e: Evaluation) -> str:
    whole = "the training split" if e.codes < MOST_CODES else "the training split, evenly spaced"
    return f"{plural(e.codes, 'example')} of {whole}"


def _units(model: Measured) -> list[str]:
    lines = [f"{model.run}: each dimension", f"{'dimension':>10}{'cost':>10}{'KL':>10}{'variance':>10}  active"]
    for unit in model.units:
        active = "yes" if unit.active else "NO"
        lines.append(f"{unit.kept:>10}{unit.cost:>10.3g}{unit.kl:>10.3g}{unit.variance:>10.3g}  {active}")
    return lines
