"""The table of `narrows evaluate`: one column per model."""

from narrows.inference.sampling import MOST_CODES
from narrows.report.text import plural
from narrows.runs.evaluation import Evaluation, Measured

LABEL = 34
"""The width of the first column."""
ENOUGH = 10
"""Examples per feature; with fewer, covariances are mostly noise."""


def evaluation_table(evaluation: Evaluation) -> str:
    """Return the table, and below it what its numbers mean and each dimension's numbers."""
    e = evaluation
    models = [model for model in (e.run, e.against) if model is not None]
    sampler = {"prior": "prior N(0, 1)", "mixture": f"mixture of {e.components}"}
    rows = [
        ("", [model.run for model in models]),
        ("dimensions", [str(model.dims) for model in models]),
        *_errors(models),
        ("KL, nats per input", [f"{sum(unit.kl for unit in model.units):.4g}" for model in models]),
        ("active units", [f"{model.active} of {model.dims}" for model in models]),
        ("Fréchet distance to the test split", [""] * len(models)),
        ("  real examples, from training", [f"{e.real:.4g}"] * len(models)),
        ("  reconstructions", [f"{model.reconstructions:.4g}" for model in models]),
        *(
            (f"  samples: {sampler.get(kind, kind)}", [f"{model.samples[kind]:.4g}" for model in models])
            for kind in e.run.samples
        ),
    ]
    widths = [max(len(cells[j]) for _, cells in rows) for j in range(len(models))]
    lines = [f"{e.data}: {plural(e.test, 'test input')}, {e.count:,} samples per sampler, seed {e.seed}"]
    for label, cells in rows:
        padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{label:<{LABEL}}  {padded}".rstrip())
    spaced = ", evenly spaced" if e.codes >= MOST_CODES else ""
    fitted = f"fitted to the codes of {plural(e.codes, 'example')} of the training split{spaced}"
    lines += [f"features: {e.features}", f"gaussian and mixture: {fitted}"]
    fewest = min(e.test, e.count, e.real_count)
    if fewest < ENOUGH * e.width:
        lines.append(
            f"{fewest:,} examples are few for {plural(e.width, 'feature')}: noise makes distances large, so compare "
            f"them with the distance of real examples"
        )
    for model in models:
        lines += ["", *_units(model)]
    return "\n".join(lines)


def _errors(models: list[Measured]) -> list[tuple[str, list[str]]]:
    kinds = {model.error for model in models}
    label = f"{models[0].error} error" if len(kinds) == 1 else "error"
    uppers = [f"{model.heldout.error:.4g} (at most {model.heldout.high:.4g})" for model in models]
    cells = [upper + ("" if len(kinds) == 1 else f" {one.error}") for upper, one in zip(uppers, models, strict=True)]
    taus = ["none" if model.tau is None else f"{model.tau:g}" for model in models]
    return [(label, cells), ("  decoding the mean", [f"{m.heldout.error_at_mean:.4g}" for m in models]), ("tau", taus)]


def _units(model: Measured) -> list[str]:
    lines = [f"{model.run}: dimensions", f"{'dimension':>10}{'cost':>10}{'KL':>10}{'variance':>10}  active"]
    for unit in model.units:
        active = "yes" if unit.active else "NO"
        lines.append(f"{unit.kept:>10}{unit.cost:>10.3g}{unit.kl:>10.3g}{unit.variance:>10.3g}  {active}")
    return lines
