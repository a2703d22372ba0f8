"""The answer in words, with the certificate beside it."""

from narrows.runs import HeldOut, MetricRow, Result, RunFolder


def answer(result: Result) -> str:
    """Say what was found, in a few plain lines."""
    held, tau = result.heldout, result.tau
    lines = [_headline(result)]
    lines.append(
        f"on {held.count:,} test inputs: error {held.error:.4g} (95%: {held.low:.4g} to {held.high:.4g}) against "
        f"tau {tau:g}; {held.error_at_mean:.4g} when decoding the mean"
    )
    lines.append(f"a value: {held.error / result.values:.3g} against {tau / result.values:.3g}")
    minutes, seconds = divmod(round(result.seconds), 60)
    lines.append(
        f"{result.steps:,} batches in {minutes} min {seconds} s; the saved model is that of batch {result.model_step:,}"
    )
    return "\n".join(lines)


def _headline(result: Result) -> str:
    dimensions = "dimension is" if result.dims == 1 else "dimensions are"
    if result.met:
        return f"{result.dims} of {result.n} {dimensions} enough: tau is kept on data the model never saw"
    if result.model == "last":
        return (
            f"tau was not reached: best error {result.best_error:.4g} with {result.best_dims} of {result.n} dimensions "
            f"(tau {result.tau:g}); raise tau or n, or train longer; the last model, of {result.dims} dimensions, is "
            f"saved and marked as such"
        )
    return (
        f"{result.dims} of {result.n} {dimensions} kept, but tau is not certain: it was met on the validation split "
        f"({_interval(result.validation)}) and not on the test split ({_interval(result.heldout)}); "
        f"train longer or raise tau a little"
    )


def _interval(held: HeldOut) -> str:
    return f"{held.error:.4g}, 95% up to {held.high:.4g}"


def progress(folder: RunFolder, steps: int, rows: list[MetricRow]) -> str:
    """Say where a run stands that has not ended."""
    go_on = f"go on with: narrows resume {folder.path}"
    if not rows:
        return f"{folder.path} has not ended and has no metrics yet; {go_on}"
    row = rows[-1]
    return (
        f"{folder.path} has not ended: batch {row.step:,} of {steps:,}, error {row.error:.4g}, "
        f"{row.open} gates open; {go_on}"
    )
