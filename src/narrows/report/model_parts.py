"""The parts of a run's page that its model makes: reconstructions, errors, traversals, samples; images or columns."""

import numpy as np

from narrows.report import charts, elements, sheets, words
from narrows.report.evidence import HeldOutEvidence, Picked, Traversal, traverse
from narrows.report.evidence import samples as draw_samples
from narrows.report.story import Story

MOST_COLUMNS = 30
"""Columns in the table of errors: those with the largest."""
SHOWN_VALUES = 10
"""Columns of one input: those that are furthest off."""
SAMPLE_ROWS = 4
STRIP_BYTES = 1_500_000
"""Pixels of all traversals together, before compression."""
CHART_TRAVERSALS = 24
"""Traversals of vectors: a chart each."""


def reconstructions(story: Story) -> str:
    """Return best, median and worst test inputs beside what the model makes of them; for tables, columns' errors."""
    if story.trained is None or story.seen is None:
        return elements.paragraph(story.missing, "note")
    seen = story.seen
    text = (
        f"Of {seen.count:,} evenly spaced test inputs those with the smallest, the median and the largest error, "
        "decoding the mean of their codes."
    )
    named = [("Best", seen.best), ("Median", seen.median), ("Worst", seen.worst)]
    if seen.column_errors is not None:
        return _columns(story, seen, text, named)
    low, high = sheets.levels([seen.best.inputs, seen.median.inputs, seen.worst.inputs])
    scale = max(float(np.abs(picked.outputs - picked.inputs).max()) for _, picked in named)
    text += (
        f" Differences are orange where the output is too bright and blue where it is too dark, full at {scale:.2g}."
    )
    figures = "".join(_triple(name, picked, low, high, scale) for name, picked in named)
    return elements.paragraph(text, "note") + f'<div class="grid three">{figures}</div>'


def _triple(name: str, picked: Picked, low: float, high: float, scale: float) -> str:
    rows = [sheets.as_bytes(images, low, high) for images in (picked.inputs, picked.outputs)]
    rows.append(sheets.differences(picked.inputs, picked.outputs, scale))
    about = f"{name}: {len(picked.errors)} inputs, their reconstructions and the differences, one below the other"
    word = f"errors {', '.join(f'{error:.3g}' for error in picked.errors)}"
    return elements.sheet(sheets.grid(rows), about, ["input", "output", "difference"], name, word)


def _columns(story: Story, seen: HeldOutEvidence, text: str, named: list[tuple[str, Picked]]) -> str:
    assert seen.column_errors is not None
    names, total = column_names(story), max(float(seen.column_errors.sum()), 1e-30)
    order = np.argsort(-seen.column_errors, kind="stable")[:MOST_COLUMNS]
    parts = [(names[c], float(seen.column_errors[c])) for c in order]
    rows = [([name, f"{part:.3g}", f"{part / total:.1%}"], part) for name, part in parts]
    which = "Each column's part of the error"
    if len(order) < len(names):
        which += f": the {len(order)} largest of {len(names):,}"
    unit = ", in the column's own unit" if isinstance(seen.unit, np.ndarray) else ""
    table = elements.bar_table(["column", "error", "share"], rows, 3, rows[0][1])
    head = f"<h3>{elements.escape(which + unit)}</h3>"
    inputs = "".join(_one_input(name, picked, names, seen) for name, picked in named)
    single = f'<h3>Single inputs</h3>{elements.paragraph(text, "note")}<div class="grid tables">{inputs}</div>'
    return f'{head}{table}<div class="apart">{single}</div>'


def _one_input(name: str, picked: Picked, names: list[str], seen: HeldOutEvidence) -> str:
    x, y = picked.inputs[0], picked.outputs[0]
    order = np.argsort(-np.abs((y - x) / seen.unit), kind="stable")[:SHOWN_VALUES]
    rows = [[names[c], *map(words.number, (x[c], y[c], y[c] - x[c]))] for c in order]
    title = f"{name}: error {picked.errors[0]:.3g}"
    table = elements.table(["column", "input", "output", "difference"], rows, numbers=True)
    return f"<div><h3>{elements.escape(title)}</h3>{table}</div>"


def errors(story: Story) -> str:
    """Return the distribution of the errors against tau."""
    if story.seen is None:
        return ""
    text = "The promise is about the mean over inputs; single ones may be above τ. Codes are drawn, as in training."
    spec = charts.error_histogram(story.seen.errors, story.tau)
    return elements.paragraph(text, "note") + elements.chart("errors-chart", f"{story.seen.count:,} test inputs", spec)


def traversals(story: Story) -> str:
    """Return each kept dimension led through its range."""
    if story.trained is None or story.trained.model.n == 0:
        return ""
    made = traverse(story.trained, story.seen, story.result)
    if story.seen is not None:
        text = (
            "One dimension goes from the 1st to the 99th percentile of its codes; the others stay as an input with the "
            "median error has them."
        )
    else:
        text = "One dimension goes through its range; the others stay at their mean."
    is_image = len(story.trained.shape) == 3
    shown = made if is_image else made[:CHART_TRAVERSALS]
    if len(shown) < story.trained.model.n:
        text += f" The {len(shown)} with the largest cost of removal, of {story.trained.model.n}."
    body = _strips(story, shown) if is_image else _traversal_charts(story, shown)
    return elements.paragraph(text, "note") + body


def _strips(story: Story, made: list[Traversal]) -> str:
    low, high = sheets.levels([one.decoded for one in made])
    side = sheets.side_of(len(made) * len(made[0].positions), made[0].decoded[0], STRIP_BYTES)
    figures = []
    for one in made:
        source = sheets.grid([sheets.as_bytes(one.decoded, low, high)], side)
        about = f"{len(one.positions)} images, decoded while dimension {one.dimension + 1} goes through its range"
        figures.append(f"<figure><figcaption>{_name(story, one)}</figcaption>{elements.image(source, about)}</figure>")
    return f'<div class="strips">{"".join(figures)}</div>'


def _name(story: Story, one: Traversal) -> str:
    cost = f", cost {story.result.dimensions[one.dimension].cost:.3g}" if story.result is not None else ""
    reach = f"{one.positions[0]:.2f} to {one.positions[-1]:.2f}"
    return f"<span>Dimension {one.dimension + 1}{cost}</span><small>{reach}</small>"


def _traversal_charts(story: Story, made: list[Traversal]) -> str:
    assert story.trained is not None
    columns = story.trained.about.get("columns", [])
    unit = story.seen.unit if story.seen is not None else 1.0
    drawn = []
    for one in made:
        cost = f"cost {story.result.dimensions[one.dimension].cost:.3g}" if story.result is not None else ""
        spec = charts.traversal_chart(one, columns, unit)
        drawn.append(elements.chart(f"traversal-{one.dimension}", f"Dimension {one.dimension + 1}", spec, cost))
    return f'<div class="grid three">{"".join(drawn)}</div>'


def samples(story: Story) -> str:
    """Return new examples, decoded from the prior."""
    if story.trained is None:
        return ""
    drawn = draw_samples(story.trained)
    text = "Decoded from codes drawn from the prior."
    if len(story.trained.shape) == 3:
        low, high = sheets.levels([drawn])
        rows = np.split(sheets.as_bytes(drawn, low, high), SAMPLE_ROWS)
        about = f"{len(drawn)} examples that the model made up"
        return (
            elements.paragraph(text, "note") + f'<div class="samples">{elements.image(sheets.grid(rows), about)}</div>'
        )
    names = column_names(story)[:SHOWN_VALUES]
    more = f" The first {len(names)} of {drawn.shape[1]:,} values." if len(names) < drawn.shape[1] else ""
    lines = [[str(i), *map(words.number, row[: len(names)])] for i, row in enumerate(drawn[:8], 1)]
    return elements.paragraph(text + more, "note") + elements.table(["sample", *names], lines, numbers=True)


def column_names(story: Story) -> list[str]:
    """Return the names of a table's columns, or the numbers of a vector's values."""
    assert story.trained is not None
    return list(story.trained.about.get("columns") or map(str, range(story.trained.shape[0])))
