"""A run's answer, certificate and progress as plain sentences, for the terminal and for the pages.

Names of settings and commands are in backquotes, which a page shows as code.
"""

import math
from typing import Literal

from narrows._util.errors import NarrowsError, as_option
from narrows._util.text import printable
from narrows.recipes.controller import ControllerConfig
from narrows.recipes.registry import RECIPES
from narrows.report.contents import RunContents, read_run
from narrows.runs.certificate import FEWEST, certainty, with_bound
from narrows.runs.folder import RunFolder, resuming
from narrows.runs.front import FrontFolder, outermost
from narrows.runs.records import Certificate, DecisionRow, MetricRow, Result
from narrows.training.config import TrainConfig

MOST_COSTS = 12
"""Costs of removal in the answer; longer lists are cut off."""
MOST_COLUMNS = 3
"""Columns named for each dimension."""
SLACK = 0.9
"""Below this share of tau the error leaves room for more gates to close."""


def answer(result: Result) -> str:
    """Return the answer and its certificate in a few lines."""
    held, tau, claim = result.heldout, result.tau, result.certificate
    bound = "" if tau is None else f" (tau {tau:g})"
    bound_per_value = "" if tau is None else f" (tau {tau / result.values:.3g})"
    explained = f"; {share(1 - held.error / result.variance)} of the variance explained" if result.variance else ""
    if result.null_deviance and result.explainable:
        explained = f"; {explained_deviance(result)} of the deviance that is not noise explained"
    lines = [
        headline(result),
        f"{error_on_test(result)}: {held.error:.4g}{bound}, at most {held.high:.4g} with "
        f"{certainty(claim)} confidence{_look(claim)}; {held.error_at_mean:.4g} when decoding the mean",
        f"per value: {held.error / result.values:.3g}{bound_per_value}{explained}",
    ]
    if claim is not None and claim.share is not None:
        lines.append(single_inputs(claim.share, claim.share_error or 0.0, claim.confidence))
    if result.dimensions:
        costs = sorted((dimension.cost for dimension in result.dimensions), reverse=True)
        shown = " ".join(f"{cost:.3g}" for cost in costs[:MOST_COSTS]) + (" ..." if len(costs) > MOST_COSTS else "")
        lines.append(f"cost of removing each dimension: {shown}")
    if len(result.errors_of_first) > 1:
        errors = result.errors_of_first[1:]
        shown = " ".join(f"{error:.3g}" for error in errors[:MOST_COSTS]) + (" ..." if len(errors) > MOST_COSTS else "")
        lines.append(f"error with the first 1, 2, ... of them: {shown}")
    lines += features(result)
    lines.append(
        f"{plural(result.steps, 'batch')} in {minutes(result.seconds)}; "
        f"the model was saved after batch {result.model_step:,}"
    )
    return "\n".join(lines)


def explained_deviance(result: Result) -> str:
    """Format the share of the explainable deviance of counts; it can be above 1, because codes also fit noise."""
    assert result.null_deviance is not None
    assert result.explainable is not None
    part = (result.null_deviance - result.heldout.error) / result.explainable
    return f"{part:.0%}" + (" (codes also fit some noise)" if part > 1 else "")


def headline(result: Result) -> str:
    """Return the answer in one sentence."""
    dims, tau = f"{result.dims} of {result.n} dimensions {'is' if result.dims == 1 else 'are'}", result.tau
    longer = "train longer (`--steps`, `--effort thorough`)"
    if tau is None:
        return f"a plain VAE with {plural(result.dims, 'dimension')}"
    if result.met:
        return f"{dims} enough: the error is within tau on data the model never saw{_refused(result)}"
    if result.heldout.count < FEWEST and (result.certificate is None or result.certificate.limit is None):
        return (
            f"{dims} kept, but tau is not certain: {plural(result.heldout.count, f'test {unit_of(result)}')} are too "
            f"few; at least {FEWEST} are needed"
        )
    if result.model == "last" and min(result.validation.error, result.best_error) <= tau:
        return (
            f"{dims} kept, but tau is not certain: on the validation split the error is {result.validation.error:.4g}, "
            f"and on the test split {with_bound(result.heldout, result.certificate)}; use more data, raise tau a "
            f"little, or {longer}"
        )
    if result.model == "last":
        return (
            f"tau was not reached: the best error is {result.best_error:.4g} with {result.best_dims} of {result.n} "
            f"dimensions (tau {tau:g}); raise tau or n, or {longer}; the last model, with "
            f"{plural(result.dims, 'dimension')}, is saved and marked as such"
        )
    return (
        f"{dims} kept, but tau is not certain: the error is {result.validation.error:.4g} on the validation split, and "
        f"{with_bound(result.heldout, result.certificate)} on the test split; raise tau a little, or {longer}"
    )


def unit_of(result: Result) -> str:
    """Return what the certificate counts: inputs, or groups of them."""
    return "input" if result.certificate is None else result.certificate.unit


def _look(claim: Certificate | None) -> str:
    """Return which look at the test split it is, if not the first."""
    return f" (look {claim.look} at the test split)" if claim is not None and claim.look > 1 else ""


def _refused(result: Result) -> str:
    """Return which smaller model was tested in vain."""
    refused = [one for one in result.certificate.refused if one.dims < result.dims] if result.certificate else []
    tau = result.tau or 0.0
    words = {one: "nearly" if one.error <= tau else "failed" for one in refused}
    return "".join(f"; {one.dims} {word}: {one.error:.4g}, at most {one.high:.4g}" for one, word in words.items())


def features(result: Result) -> list[str]:
    """Return which columns of a table each dimension says most about, with how much their errors rise without it."""
    if not (result.columns and result.feature_costs):
        return []
    names, lines = [printable(name, 40) for name in result.columns], []
    for j in range(min(result.dims, MOST_COSTS)):
        costs = [of_column[j] for of_column in result.feature_costs]
        largest = sorted(range(len(costs)), key=lambda c: -costs[c])[:MOST_COLUMNS]
        said = ", ".join(f"{names[c]} {costs[c]:.2g}" for c in largest if costs[c] > 0)
        lines.append(f"dimension {j + 1} says most about: {said or 'nothing'}")
    return lines


def error_on_test(result: Result) -> str:
    """Return what the error of the answer is a mean of."""
    claim, count = result.certificate, result.heldout.count
    unit, weighted = ("input", False) if claim is None else (claim.unit, claim.weighted)
    return f"{'weighted ' if weighted else ''}error on {count:,} {'groups of ' if unit == 'group' else ''}test inputs"


def single_inputs(share: float, error: float, confidence: float) -> str:
    """Return what is claimed about single inputs."""
    return (
        f"at least {math.floor(100 * share)}% of all inputs have an error of at most {error:.4g}, "
        f"with {100 * confidence:.6g}% confidence"
    )


def full_answer(result: Result, folder: RunFolder) -> str:
    """Return the answer and what else there is to know about it."""
    return "\n".join([answer(result), *notes(read_run(folder))])


def notes(run: RunContents) -> list[str]:
    """Return where tau came from if another run set it, and whether a longer run may find fewer dimensions."""
    lines = []
    plain = RunFolder(run.folder.plain)
    reference = plain.read_result()
    if reference is not None:
        lines.append(
            f"tau comes from the plain VAE with {plural(reference.dims, 'dimension')} in {plain.path}, whose error on "
            f"the same test inputs is {with_bound(reference.heldout, reference.certificate)}"
        )
    advice = hint(run)
    return [*lines, advice] if advice else lines


CUT_OFF = "`steps` ended the search early, so the number is an upper bound; without `steps` the search ends by itself"


def hint(run: RunContents) -> str | None:
    """Return advice if training ended early: with room below tau, or between two sizes."""
    result, rows = run.result, run.rows
    if result is None or not rows or result.model == "last" or result.tau is None:
        return None
    if run.recipe.ends_by_itself:
        return CUT_OFF if is_cut_off(run) else None
    row, command = rows[-1], f"`{resuming(run.folder.path, 2 * result.steps)}`"
    if result.dims and row.open < result.dims:
        return f"training ended with {row.open} gates open and the error still above tau; continue with {command}"
    if result.dims and row.error < SLACK * result.tau:
        return (
            f"training ended with the error at {row.error / result.tau:.0%} of tau; more gates may close with {command}"
        )
    return None


def is_cut_off(run: RunContents) -> bool:
    """Return whether the last phase began because `steps` was nearly used up, while gates could still close."""
    steps = run.config.steps
    if not (run.recipe.closes_gates and run.recipe.ends_by_itself) or steps == "auto":
        return False
    release = next((decision for decision in run.decisions if decision.action == "release"), None)
    return release is None or release.step >= steps / (1 + ControllerConfig.reserved)


def front_table(folder: FrontFolder) -> str:
    """Return one line per tau: dimensions, held-out error, and whether the promise is kept."""
    results, taus = folder.read_results(), folder.read_about()["taus"]
    lines = [f"{'tau':>8}  {'dims':>4}  {'test error':>10}  {'at most':>8}  {'confidence':<10}  met"]
    for result in results:
        held, met = result.heldout, "yes" if result.met else "NO"
        bound = f"{held.error:>10.4g}  {held.high:>8.4g}  {certainty(result.certificate):<10}"
        lines.append(f"{result.tau:>8g}  {result.dims:>4}  {bound}  {met}")
    if any(is_cut_off(read_run(folder.level(result.tau or 0.0))) for result in results):
        lines.append(CUT_OFF)
    together = hold_together(results)
    if len(together) > 1:
        certain = certainty(together[-1].certificate)  # the smallest tau is approximate if any is
        lines.append(f"tau {together[-1].tau:g} and above hold together with {certain} confidence")
    if len(results) < len(taus):
        lines.append(f"{len(taus) - len(results)} of {len(taus)} not done yet")
    return "\n".join(lines)


def hold_together(results: list[Result]) -> list[Result]:
    """Return the taus whose promises are certified together, the largest first.

    Each is certified by itself. As a fixed sequence from the largest tau on, they are also certified together, up to
    the first test that fails (runs/certificate.py).
    """
    together = []
    for result in reversed(results):
        if not result.met:
            break
        together.append(result)
        if result.certificate is None or result.certificate.refused:
            break
    return together


def resume_command(folder: RunFolder) -> str:
    """Return what continues a run, or the front or the run that it is a part of."""
    return resuming(outermost(folder))


def progress(run: RunContents) -> str:
    """Return how far a run is that has not ended, and how to continue it."""
    plain = RunFolder(run.folder.plain)
    if not run.rows and plain.config.exists() and plain.read_result() is None:
        return progress(read_run(plain))
    state = "no metrics yet"
    if run.rows:
        row = run.rows[-1]
        state = f"{batch_of(row.step, run.config.steps)}, {error_of(run.config, row)}, {plural(row.open, 'gate')} open"
    return f"{run.folder.path} has not ended: {state}; continue it with `{resume_command(run.folder)}`"


def metrics_line(config: TrainConfig, row: MetricRow) -> str:
    """Return a row of metrics in one line: error, tau, gates, multiplier, hits."""
    bound = "" if config.tau is None else f" (tau {config.tau:g})"
    gates = f"{row.open} of {config.n} open"
    return f"{error_of(config, row)}{bound}, {gates}, lambda {row.multiplier:.3g}, hits {row.hits:.0%}"


def error_of(config: TrainConfig, row: MetricRow) -> str:
    """Return a row's held-out error if the recipe measures it, else its training error."""
    if RECIPES[config.recipe].measures_heldout:
        return f"held-out error {row.watched:.4g}"
    return f"training error {row.error:.4g}"


def batch_of(step: int, steps: int | Literal["auto"]) -> str:
    """Return how many batches are done, and of how many if that is known."""
    return f"batch {step:,}" if steps == "auto" else f"batch {step:,} of {steps:,}"


def decision(row: DecisionRow) -> str:
    """Return what the fast recipe did."""
    gates = row.gates.split()
    which = f"gate{'' if len(gates) == 1 else 's'} {' '.join(gates)}"
    actions = {
        "close": f"closed {which}",
        "restore": f"restored the model from before {which} closed, because the error did not recover",
        "release": "began the last phase",
        "end": "ended training",
    }
    return f"batch {row.step:,}: {actions.get(row.action, row.action)} (error at {row.error:.0%} of its target)"


def share(part: float) -> str:
    """Format a share in percent, with more digits near 100%."""
    return f"{part:.1%}" if part < 0.99 else f"{part:.3%}"


def with_upper_end(result: Result) -> str:
    """Format the test error with its upper end for a table."""
    held = result.heldout
    return f"{held.error:.4g} (at most {held.high:.4g}, {certainty(result.certificate)})"


def duration(seconds: float) -> str:
    """Format a time in its largest unit, such as 40 s, 3 min, 5 h or 2 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def minutes(seconds: float) -> str:
    """Format a time in minutes and seconds."""
    whole_minutes, rest = divmod(round(seconds), 60)
    return f"{whole_minutes} min {rest} s"


def number(value: float) -> str:
    """Format a number with four digits, without an exponent where it reads better so; NaN is a missing value."""
    if math.isnan(value):
        return "missing"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def unread(error: NarrowsError | OSError) -> str:
    """Return why a page has no test inputs; settings are spelled as options, as everywhere on the pages."""
    reason = error.spelled(as_option) if isinstance(error, NarrowsError) else error
    return sentence(f"the test inputs could not be read: {reason}")


def plural(count: int, thing: str) -> str:
    """Format a count with its noun."""
    ending = "" if count == 1 else "es" if thing.endswith("ch") else "s"
    return f"{count:,} {thing}{ending}"
