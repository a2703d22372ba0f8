"""A run's answer and its certificate as plain sentences and numbers.

Names of settings and commands are in backquotes, which a page shows as code. This module loads no torch.
"""

import math

from narrows._util.text import printable
from narrows.runs.certificate import FEWEST, certainty, with_bound
from narrows.runs.records import Certificate, Result

MOST_COSTS = 12
"""Costs of removal in the answer; longer lists are cut off."""
MOST_COLUMNS = 3
"""Columns named for each dimension."""
LONGER = "train longer (`--steps`, `--effort thorough`)"
"""What the command line advises where more training may help."""


def answer(result: Result) -> str:
    """Return the answer and its certificate in a few lines."""
    held, tau, claim = result.heldout, result.tau, result.certificate
    bound = "" if tau is None else f" (tau {tau:g})"
    bound_per_value = "" if tau is None else f" (tau {tau / result.values:.3g})"
    explained = f"; {share(1 - held.error / result.variance)} of the variance explained" if result.variance else ""
    if (part := deviance_explained(result)) is not None:
        explained = f"; {explained_deviance(part)} of the deviance that is not noise explained"
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
    if result.stopped:
        lines.append(stopped(result))
    lines.append(
        f"{plural(result.steps, 'batch')} in {minutes(result.seconds)}; "
        f"the model was saved after batch {result.model_step:,}"
    )
    return "\n".join(lines)


def headline(result: Result, longer: str = LONGER) -> str:
    """Return the answer in one sentence, which advises `longer` where more training may help."""
    dims, tau = f"{result.dims} of {result.n} dimensions {'is' if result.dims == 1 else 'are'}", result.tau
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


def stopped(result: Result) -> str:
    """Return what a result means whose training was ended by hand."""
    return (
        f"training was stopped after {plural(result.steps, 'batch')}, before it would have ended: the number of "
        f"dimensions is an upper bound"
    )


def verdict(result: Result) -> tuple[str, str] | None:
    """Return whether the promise is kept, as a class of the style sheet and in words; None if there is no promise."""
    if result.tau is None:
        return None
    if result.met:
        return "kept", "τ kept"
    return "missed", "τ not reached" if result.validation.error > result.tau else "τ not certain"


def facts(result: Result) -> list[tuple[str, str, str]]:
    """Return the numbers of the answer and its certificate: a name, a value and a note for each."""
    held, tau, claim = result.heldout, result.tau, result.certificate
    upper = f"at most {held.high:.4g} with {certainty(claim)} confidence"
    weighted = claim is not None and claim.weighted
    entries = [
        ("Dimensions", f"{result.dims} of {result.n}", f"saved after batch {result.model_step:,}"),
        (
            "Weighted error on test inputs" if weighted else "Error on test inputs",
            f"{held.error:.4g}",
            f"{upper}, {plural(held.count, unit_of(result))}",
        ),
    ]
    if tau is not None:
        kind = "" if claim is None else f", {claim.kind}"
        note = f"{tau / result.values:.3g} per value; {'' if result.met else 'not '}certified{kind}"
        entries.append(("Promise τ", f"{tau:.6g}", note))
    if claim is not None and claim.share is not None:
        within = f"{math.floor(100 * claim.share)}% of inputs, {100 * claim.confidence:.6g}% confidence"
        entries.append(("Single errors", f"{claim.share_error:.4g}", f"at most, for at least {within}"))
    if result.variance:
        entries.append(("Variance explained", share(1 - held.error / result.variance), "of the training data"))
    if (part := deviance_explained(result)) is not None:
        entries.append(("Deviance explained", explained_deviance(part), "of what is not noise"))
    ended = "stopped by hand, " if result.stopped else ""
    entries.append(("Training", plural(result.steps, "batch"), ended + minutes(result.seconds)))
    return entries


def deviance_explained(result: Result) -> float | None:
    """Return the share of the deviance of counts that is explained, of what is not noise; None for other errors."""
    if not (result.null_deviance and result.explainable):
        return None
    return (result.null_deviance - result.heldout.error) / result.explainable


def explained_deviance(part: float) -> str:
    """Format the share of the explainable deviance of counts; it can be above 1, because codes also fit noise."""
    return f"{part:.0%}" + (" (codes also fit some noise)" if part > 1 else "")


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


def share(part: float) -> str:
    """Format a share in percent, with more digits near 100%."""
    return f"{part:.1%}" if part < 0.99 else f"{part:.3%}"


def minutes(seconds: float) -> str:
    """Format a time in minutes and seconds."""
    whole_minutes, rest = divmod(round(seconds), 60)
    return f"{whole_minutes} min {rest} s"


def plural(count: int, thing: str) -> str:
    """Format a count with its noun."""
    ending = "" if count == 1 else "es" if thing.endswith("ch") else "s"
    return f"{count:,} {thing}{ending}"
