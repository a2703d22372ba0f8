"""The answer in words, with the certificate beside it."""

import math
import shlex
from typing import Literal

from narrows.closing import ClosingConfig
from narrows.fronts import FrontFolder, whole
from narrows.runs import DecisionRow, HeldOut, MetricRow, Result, RunFolder
from narrows.training.config import TrainConfig

MOST_COSTS = 12
"""Shown at most."""
SLACK = 0.9
"""Below this share of tau there is room for the gates to go on closing."""


def answer(result: Result) -> str:
    """Say what was found, in a few plain lines."""
    held, tau = result.heldout, result.tau
    lines = [headline(result)]
    against = "" if tau is None else f" against tau {tau:g}"
    lines.append(
        f"on {held.count:,} test inputs: error {held.error:.4g} (95%: {held.low:.4g} to {held.high:.4g}){against}; "
        f"{held.error_at_mean:.4g} when decoding the mean"
    )
    against = "" if tau is None else f" against {tau / result.values:.3g}"
    explained = f"; {share(1 - held.error / result.variance)} of the variance explained" if result.variance else ""
    lines.append(f"a value: {held.error / result.values:.3g}{against}{explained}")
    if result.dimensions:
        costs = sorted((dimension.cost for dimension in result.dimensions), reverse=True)
        shown = " ".join(f"{cost:.3g}" for cost in costs[:MOST_COSTS]) + (" ..." if len(costs) > MOST_COSTS else "")
        lines.append(f"each dimension's cost of removal, in error: {shown}")
    minutes, seconds = divmod(round(result.seconds), 60)
    lines.append(
        f"{result.steps:,} batches in {minutes} min {seconds} s; the saved model is that of batch {result.model_step:,}"
    )
    return "\n".join(lines)


def headline(result: Result) -> str:
    """Say the answer in one sentence."""
    dimensions = "dimensions is" if result.dims == 1 else "dimensions are"
    if result.tau is None:
        return f"a plain VAE with {plural(result.dims, 'dimension')}"
    if result.met:
        return f"{result.dims} of {result.n} {dimensions} enough: tau is kept on data the model never saw"
    if result.model == "last" and result.validation.error <= result.tau:
        return (
            f"{result.dims} of {result.n} {dimensions} kept, but tau is not certain: on the validation split the error "
            f"is {interval(result.validation)}, and tau {result.tau:g}; bring more data, raise tau a little, or train "
            f"longer (--steps, --patience)"
        )
    if result.model == "last":
        return (
            f"tau was not reached: best error {result.best_error:.4g} with {result.best_dims} of {result.n} dimensions "
            f"(tau {result.tau:g}); raise tau or n, or train longer (--steps, --patience); "
            f"the last model, of {plural(result.dims, 'dimension')}, is saved and marked as such"
        )
    return (
        f"{result.dims} of {result.n} {dimensions} kept, but tau is not certain: it was met on the validation split "
        f"({interval(result.validation)}) and not on the test split ({interval(result.heldout)}); "
        f"raise tau a little, or train longer (--steps, --patience)"
    )


def share(part: float) -> str:
    """Return a share in percent, with more digits near the whole."""
    return f"{part:.1%}" if part < 0.99 else f"{part:.3%}"


def interval(held: HeldOut) -> str:
    """Return an error with the upper end of its interval."""
    return f"{held.error:.4g}, 95% up to {held.high:.4g}"


def full_answer(result: Result, folder: RunFolder) -> str:
    """Return the answer, where its tau came from if another run set it, and the hint if there is one."""
    lines = [answer(result)]
    reference = RunFolder(folder.plain).read_result()
    if reference is not None:
        dims = plural(reference.dims, "dimension")
        lines.append(
            f"tau is what the plain VAE with {dims} in {folder.plain} reached: on the same test inputs it has "
            f"{interval(reference.heldout)}"
        )
    advice = hint(result, folder.read_rows(), folder)
    return "\n".join([*lines, advice] if advice else lines)


def hint(result: Result, rows: list[MetricRow], folder: RunFolder) -> str | None:
    """Say so when training ended with room under tau, or between two sizes: the answer may not be the last word."""
    if not rows or result.model == "last" or result.tau is None:
        return None
    if not math.isnan(rows[-1].watched):
        return CUT_OFF if is_cut_off(folder) else None
    row = rows[-1]
    more = f"more batches may close more: narrows resume {shlex.quote(str(folder.path))} --steps {2 * result.steps}"
    if result.dims == 0:
        return None
    if row.open < result.dims:
        return f"training ended with {row.open} gates open, not yet within tau; {more}"
    if row.error < SLACK * result.tau:
        return f"training ended with the error at {row.error / result.tau:.0%} of tau; {more}"
    return None


CUT_OFF = "--steps ended the search for a smaller size: the number is an upper bound; without --steps it ends by itself"


def is_cut_off(folder: RunFolder) -> bool:
    """Tell whether the fast recipe's last phase began because of --steps, and not because nothing more could close."""
    config = folder.read_config()
    steps = config.get("steps")
    if config.get("recipe") != "fast" or not isinstance(steps, int):
        return False
    release = next((d for d in folder.read_decisions() if d.action == "release"), None)
    return release is None or release.step >= steps / (1 + ClosingConfig.last)


def go_on(folder: RunFolder) -> str:
    """Return the command that goes on with a run, or with the front or the run that it is a part of."""
    return f"narrows resume {shlex.quote(str(whole(folder)))}"


def progress(folder: RunFolder, steps: int | Literal["auto"], rows: list[MetricRow]) -> str:
    """Say where a run stands that has not ended."""
    way = f"go on with: {go_on(folder)}"
    plain = RunFolder(folder.plain)
    if not rows and plain.config.exists() and plain.read_result() is None:
        return progress(plain, steps, plain.read_rows())
    if not rows:
        return f"{folder.path} has not ended and has no metrics yet; {way}"
    row = rows[-1]
    where = batch_of(row.step, steps)
    return f"{folder.path} has not ended: {where}, {error_of(row)}, {plural(row.open, 'gate')} open; {way}"


def facts(row: MetricRow, config: TrainConfig) -> str:
    """Say how a run stands: error against tau, gates, multiplier, hits."""
    bound = "" if config.tau is None else f" (tau {config.tau:g})"
    return f"{error_of(row)}{bound}, {row.open} of {config.n} open, lambda {row.multiplier:.3g}, hits {row.hits:.0%}"


def error_of(row: MetricRow) -> str:
    """Return the error that says most about the promise: that of held-out inputs, where it is watched."""
    return f"training error {row.error:.4g}" if math.isnan(row.watched) else f"held-out error {row.watched:.4g}"


def batch_of(step: int, steps: int | Literal["auto"]) -> str:
    """Say how far a run is."""
    return f"batch {step:,}" if steps == "auto" else f"batch {step:,} of {steps:,}"


def decision(row: DecisionRow) -> str:
    """Say what the fast recipe did."""
    gates = row.gates.split()
    which = f"gate{'' if len(gates) == 1 else 's'} {' '.join(gates)}"
    told = {
        "close": f"closed {which}",
        "reopen": f"opened {which} again: closing did not pay",
        "restore": "went back to the weights before the last closing",
        "release": "the last phase begins",
        "end": "training is done",
    }
    return f"batch {row.step:,}: {told.get(row.action, row.action)} (error at {row.error:.0%} of its target)"


def duration(seconds: float) -> str:
    """Return a time in its largest unit, such as 40 s, 3 min, 5 h or 2 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number(value: float) -> str:
    """Return a number in four digits, without an exponent where it reads better so."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def sentence(text: str) -> str:
    """Return the text with an end, if it has none."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def plural(count: int, thing: str) -> str:
    """Return the count with its noun, in the singular for one."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def front_table(folder: FrontFolder) -> str:
    """Return one line a tau: dimensions, held-out error, and whether the promise is kept."""
    results, taus = folder.read_results(), folder.read_about()["taus"]
    lines = [f"{'tau':>8}  {'dims':>4}  {'test error (95%)':<28}  met (the interval is within tau)"]
    for result in results:
        held = result.heldout
        interval = f"{held.error:.4g} ({held.low:.4g} to {held.high:.4g})"
        lines.append(f"{result.tau:>8g}  {result.dims:>4}  {interval:<28}  {'yes' if result.met else 'NO'}")
    if any(is_cut_off(folder.level(result.tau or 0.0)) for result in results):
        lines.append(CUT_OFF)
    missing = len(taus) - len(results)
    if missing:
        lines.append(f"{missing} of {len(taus)} not done yet")
    return "\n".join(lines)
