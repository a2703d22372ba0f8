"""A run's answer, certificate and progress as plain sentences, for the terminal and for the pages.

Names of settings and commands are in backquotes, which a page shows as code.
"""

import math
from typing import Literal

from narrows._util.errors import NarrowsError, as_option
from narrows.recipes.controller import ControllerConfig
from narrows.recipes.registry import RECIPES
from narrows.report.contents import RunContents, read_run
from narrows.runs.answer import (
    answer as answer,
    error_on_test as error_on_test,
    headline as headline,
    minutes as minutes,
    plural as plural,
    share as share,
    single_inputs as single_inputs,
    unit_of as unit_of,
)
from narrows.runs.certificate import certainty, with_bound
from narrows.runs.folder import RunFolder, resuming
from narrows.runs.front import FrontFolder, outermost
from narrows.runs.records import DecisionRow, MetricRow, Result
from narrows.training.config import TrainConfig

SLACK = 0.9
"""Below this share of tau the error leaves room for more gates to close."""


def full_answer(result: Result, folder: RunFolder) -> str:
    """Return the answer and what else there is to know about it."""
    return "\n".join([answer(result), *notes(read_run(folder))])


def notes(run: RunContents) -> list[str]:
    """Return where tau came from if another run set it, and whether a longer run may find fewer dimensions."""
    if run.folder is None:
        return [CUT_OFF.replace("steps", "max_steps")] if run.result and run.result.met and is_cut_off(run) else []
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
    row, command = rows[-1], f"`{resuming(run.files.path, 2 * result.steps)}`"
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
    plain = RunFolder(run.files.plain)
    if not run.rows and plain.config.exists() and plain.read_result() is None:
        return progress(read_run(plain))
    state = "no metrics yet"
    if run.rows:
        row = run.rows[-1]
        state = f"{batch_of(row.step, run.config.steps)}, {error_of(run.config, row)}, {plural(row.open, 'gate')} open"
    return f"{run.files.path} has not ended: {state}; continue it with `{resume_command(run.files)}`"


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
