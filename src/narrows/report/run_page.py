"""11. A run's report: one self-contained page, from the run's folder and, if they are at hand, its data.

The answer and its certificate come first, then how training went, what is left and what it costs, what the model does
to inputs it never saw, and how to do it again. A run that has not ended has a page too, which says so; data that
cannot be read any more cost the page its reconstructions, and nothing else.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path

from narrows.data import Data
from narrows.files import write_atomic
from narrows.report import charts, elements, model_parts, repeat, words
from narrows.report.staircase import lines_of_run
from narrows.report.story import Story, read_story
from narrows.runs import Dimension, Result, RunFolder

MOST_DIMENSIONS, AT_ONCE = 64, 24
"""Rows of the table of costs, and those of them that are there without asking."""
LONG = 110
"""A sentence that is too long for a heading: its reasons go below."""


def write_report(folder: RunFolder, data: Data | None = None, out: Path | None = None) -> Path:
    """Write a run's report into its folder, or into `out`; `data` are loaded again unless given."""
    out = out or folder.report
    write_atomic(out, page(read_story(folder, data)))
    return out


def page(story: Story) -> str:
    """Return the page."""
    parts: list[tuple[str, str, Callable[[Story], str]]] = [
        ("training", "How training went", training_part),
        ("gates", "Which gate closed when", gates_part),
        ("dimensions", "What each dimension is worth", dimensions_part),
        ("reconstructions", "What the model keeps", model_parts.reconstructions),
        ("errors", "Errors of single inputs", model_parts.errors),
        ("traversals", "What each dimension does", model_parts.traversals),
        ("samples", "New examples", model_parts.samples),
        ("settings", "Settings, and how to repeat it", repeat.settings),
    ]
    made = [(identity, heading, inside) for identity, heading, make in parts if (inside := make(story))]
    title = f"{story.name}: {_title(story)}"
    links = elements.navigation((identity, identity.capitalize()) for identity, _, _ in made)
    body = [
        "<header>",
        elements.paragraph(f"narrows · {story.name} · {story.folder.path}", "about"),
        answer_part(story),
        links,
        "</header>\n<main>",
        *(elements.section(*one) for one in made),
        "</main>",
    ]
    return elements.document(title, "\n".join(body))


def _title(story: Story) -> str:
    if story.result is None:
        return "a run that has not ended"
    return f"{story.result.dims} of {story.result.n} dimensions"


def answer_part(story: Story) -> str:
    """Return the answer in one sentence, with its certificate."""
    result = story.result
    if result is None:
        where, _, go_on = words.progress(story.folder, story.config.steps, story.rows).rpartition("; go on with: ")
        line = f"{where}. If it is not at work, go on with `{go_on}`."
        badge = '<p class="badge open">Not ended</p>'
        return badge + "<h1>This run has not ended</h1>" + elements.paragraph(line, "lead")
    headline, *rest = words.full_answer(result, story.folder).split("\n")
    sentence = headline[0].upper() + headline[1:]
    title, *more = sentence.split(": ", 1) if len(sentence) > LONG else [sentence]
    kind = "kept" if result.met else "missed"
    badge = "" if result.tau is None else f'<p class="badge {kind}">{_verdict(result)}</p>'
    extra = [line for line in rest if line.startswith(("tau is what", "--steps", "training ended"))]
    lead = [re.sub(r"--\w+", r"`\g<0>`", text[0].upper() + text[1:]) + "." for text in (*more, *extra)]
    heading = f"<h1>{elements.inline(title)}</h1>"
    return "\n".join([badge, heading, *(elements.paragraph(text, "lead") for text in lead), _facts(result)])


def _verdict(result: Result) -> str:
    if result.met:
        return "τ kept"
    return "τ not certain" if result.tau is not None and result.validation.error <= result.tau else "τ not reached"


def _facts(result: Result) -> str:
    held, tau = result.heldout, result.tau
    entries = [
        ("Dimensions", f"{result.dims} of {result.n}", f"the model of batch {result.model_step:,}"),
        ("Error on test inputs", f"{held.error:.4g}", f"95%: {held.low:.4g} to {held.high:.4g}, {held.count:,} inputs"),
    ]
    if tau is not None:
        word = f"{tau / result.values:.3g} a value; the interval is {'' if held.meets(tau) else 'not '}within it"
        entries.append(("Promise τ", f"{tau:.6g}", word))
    if result.variance:
        entries.append(("Variance explained", words.share(1 - held.error / result.variance), "of the training data's"))
    minutes, seconds = divmod(round(result.seconds), 60)
    entries.append(("Training", f"{result.steps:,} batches", f"{minutes} min {seconds} s"))
    return elements.facts(entries)


def training_part(story: Story) -> str:
    """Return the four curves."""
    if not story.rows:
        return elements.paragraph("There are no metrics yet.", "note")
    made = charts.run_charts(story.rows, story.tau, story.n, story.result, story.folder.read_decisions())
    drawn = [elements.chart(f"curve-{i}", title, spec) for i, (title, spec) in enumerate(made)]
    hint = "Drag over a part to look closer, double click to see all of it again. `metrics.csv` has the numbers."
    first, top = story.rows[0].error, made[0][1]["y"]["max"]
    if first > top:
        hint += f" The error begins at {words.number(first)}, above what the chart shows."
    without = '<noscript><p class="note">The charts need JavaScript; curves.png has the same curves.</p></noscript>'
    return elements.paragraph(hint, "note") + without + f'<div class="grid">{"".join(drawn)}</div>'


def gates_part(story: Story) -> str:
    """Return the staircase of gates; a plain VAE has none."""
    lines = lines_of_run(story.folder, story.n, story.rows)
    if not lines or story.config.recipe == "plain":
        return ""
    again = sum(change == "opened again" for line in lines for _, change in line.changes)
    if story.config.recipe == "paper":
        text = "This recipe records how many gates are open, not which: line k is drawn while at least k are."
    else:
        text = "A line is a gate while it is open; a cross is a closing, a ring an opening again."
        text += f" {words.plural(again, 'gate')} opened again: closing did not pay." if again else ""
    spec = charts.gate_chart(lines, story.rows[-1].step)
    return elements.paragraph(text, "note") + elements.chart("gate-lines", "Gates over the batches", spec)


def dimensions_part(story: Story) -> str:
    """Return the cost of removal of each kept dimension as bars, with what else is known about it."""
    result = story.result
    if result is None:
        return elements.paragraph("Costs of removal are measured when the run ends.", "note")
    if not result.dimensions:
        return elements.paragraph("No dimension is left: the decoder's constant is within the promise.", "note")
    text = (
        "The cost of removal is how much the error of test inputs rises when a dimension is closed and nothing is "
        "trained on. KL, in nats, is what it says about an input; mean and deviation are those of its codes (the "
        "prior has 0 and 1)."
    )
    shown = result.dimensions[:MOST_DIMENSIONS]
    if len(shown) < len(result.dimensions):
        text += f" The {len(shown)} with the largest cost, of {len(result.dimensions)}; `result.json` has all."
    header = ["dimension", "gate", "cost", "KL", "mean", "deviation"]
    rows = [(_cells(i, one), one.cost) for i, one in enumerate(shown, 1)]
    most = max(value for _, value in rows)
    made = elements.bar_table(header, rows[:AT_ONCE], 3, most)
    if len(rows) > AT_ONCE:
        rest = elements.bar_table(header, rows[AT_ONCE:], 3, most)
        made += f"<details><summary>{len(rows) - AT_ONCE} more</summary>{rest}</details>"
    return elements.paragraph(text, "note") + made


def _cells(place: int, one: Dimension) -> list[str]:
    cost = f"{one.cost:.3g}" if math.isfinite(one.cost) else "unknown"
    return [str(place), str(one.kept), cost, f"{one.kl:.3g}", f"{one.mean:.2f}", f"{one.std:.2f}"]
