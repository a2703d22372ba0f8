"""The explorer's page: its frame in HTML, made from the report's elements; its script fills it (assets/)."""

import json
import math
from importlib.resources import files as package_files
from typing import Any

from narrows.explorer import uploads
from narrows.explorer.answers import FULL, model
from narrows.explorer.inputs import MOST_UPLOADS
from narrows.explorer.models import Explorer
from narrows.report import elements

MOST_COLUMNS = 40
"""Columns of a table that are shown."""


def files(explorer: Explorer) -> dict[str, tuple[str, bytes]]:
    """Return everything that can be read: name, type and content."""
    style = elements.asset("report.css") + _asset("explorer.css")
    script = _asset("vectors.js") + _asset("explorer.js")
    return {
        "": ("text/html; charset=utf-8", html(explorer).encode()),
        "explorer.css": ("text/css; charset=utf-8", style.encode()),
        "explorer.js": ("text/javascript; charset=utf-8", script.encode()),
    }


def html(explorer: Explorer) -> str:
    """Return the page."""
    facts = json.dumps(_facts(explorer), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{elements.escape(explorer.name)}: explore</title>"
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="explorer.css">'
    )
    about = elements.paragraph(f"narrows · {explorer.name} · explore", "about")
    missing = elements.paragraph(explorer.inputs.missing, "note") if explorer.inputs.missing else ""
    headline = f'<h1 id="headline">{elements.escape(explorer.name)}</h1>'
    header = f"<header>{about}{headline}{missing}{_front(explorer)}</header>"
    message = '<p id="message" role="alert" hidden></p>'
    main = f'<main class="bench">{_view(explorer)}{_controls(explorer)}{_sliders()}{_between(explorer)}</main>'
    data = f'<script type="application/json" id="facts">{facts}</script>'
    script = '<script src="explorer.js" defer></script>'
    without = "<noscript><p>This page needs JavaScript.</p></noscript>"
    body = f"{header}{message}{without}{main}{data}"
    return f'<!doctype html>\n<html lang="en"><head>{head}{script}</head>\n<body>{body}</body></html>\n'


def _facts(explorer: Explorer) -> dict[str, Any]:
    """Return what the script starts from."""
    inputs = explorer.inputs
    chosen = explorer.model(0)
    columns = list(chosen.trained.about.get("columns") or [])[:MOST_COLUMNS]
    ranges = inputs.column_ranges()
    units = (chosen.trained.about.get("units") or {}).get("unit") or []
    return {
        "models": len(explorer.folders),
        "taus": explorer.taus,
        "first": model(explorer, {"model": 0}),
        "inputs": len(inputs.held),
        "image": inputs.is_image,
        "columns": columns,
        "ranges": ranges,
        "places": _places(ranges[: len(columns)], units[: len(columns)]),
        "most": uploads.MOST_BYTES,
        "kept": MOST_UPLOADS,
    }


def _places(ranges: list[list[float]], units: list[float]) -> list[int | None]:
    """Return the last decimal place that matters in each column: 0 for ones, -2 for hundredths, 3 for thousands.

    It makes a thousand steps or more from the 1st to the 99th percentile; where these are the same or not known, in
    the column's unit.
    """
    spreads = [high - low for low, high in ranges] or units
    found = [spread or unit for spread, unit in zip(spreads, units or spreads, strict=True)]
    return [math.floor(math.log10(one)) - 3 if one and math.isfinite(one) else None for one in found]


def _front(explorer: Explorer) -> str:
    if len(explorer.folders) == 1:
        return ""
    last = len(explorer.folders) - 1
    return (
        '<div class="slide front"><label for="tau">τ: accepted error per input</label>'
        f'<input type="range" id="tau" min="0" max="{last}" step="1" value="0" autocomplete="off">'
        '<output id="tau-value" for="tau"></output></div>'
    )


def _view(explorer: Explorer) -> str:
    """Return where the input, what the sliders make and the difference are shown."""
    if explorer.inputs.is_image:
        low, high = explorer.inputs.levels
        word = f"orange: too bright, blue: too dark, full at {FULL * (high - low):.2g}"
        names = [("input", "Input", ""), ("decoded", "Decoded", ""), ("difference", "Difference", word)]
        figures = "".join(
            f'<figure id="{key}"><figcaption>{name}</figcaption><img class="pixels" alt="{name}" hidden>'
            f'<p class="note blank">none</p>{f"<small>{word}</small>" if word else ""}</figure>'
            for key, name, word in names
        )
        return f'<div class="view pictures">{figures}</div>'
    columns = explorer.model(0).trained.about.get("columns") or []
    if columns:
        shown = min(len(columns), MOST_COLUMNS)
        note = f"The first {shown} of {len(columns)} columns. " if shown < len(columns) else ""
        note += "Bars go from the 1st to the 99th percentile of the test inputs; the mark is the input."
        table = (
            '<div class="scroll" tabindex="0" role="region" aria-label="Columns"><table><thead><tr>'
            '<th scope="col">column</th><th scope="col" class="number">input</th><th scope="col" class="number">decoded'
            '</th><th aria-hidden="true"></th></tr></thead><tbody id="columns"></tbody></table></div>'
        )
        return f'<div class="view">{table}{elements.paragraph(note, "note")}</div>'
    legend = '<p class="note"><span class="key grey"></span>input <span class="key blue"></span>decoded</p>'
    lines = '<output id="top"></output><svg id="profile" role="img"></svg><output id="bottom"></output>'
    chart = f'<div class="profile">{lines}</div>'
    return f'<div class="view"><h2>{explorer.inputs.shape[0]:,} values</h2>{chart}{legend}</div>'


def _controls(explorer: Explorer) -> str:
    """Return how an input is chosen and what its error is."""
    some = len(explorer.inputs.held) > 0
    buttons = _chooser("input", some, explorer.inputs.is_image)
    tiles = [
        ("one", "Error of this input", "what the sliders decode beside it"),
        ("many", "Mean error of test inputs", ""),
    ]
    cells = "".join(
        f'<div><dt>{name}</dt><dd><output id="{key}">–</output><small id="{key}-word">{word}</small></dd></div>'
        for key, name, word in tiles
    )
    return (
        f'<section class="controls" aria-label="Input"><h2>Input</h2><p id="input-title" class="note" role="status">'
        f'{"" if some else "No input is chosen."}</p>{buttons}<dl class="facts">{cells}</dl></section>'
    )


def _chooser(key: str, some: bool, upload: bool) -> str:
    """Return the buttons that choose an input."""
    words = [("previous", "Previous"), ("next", "Next"), ("random", "Random")] if some else []
    made = [f'<button type="button" data-choose="{key}" data-which="{which}">{name}</button>' for which, name in words]
    if upload:
        made.append(
            f'<label class="button" for="{key}-file">Upload an image<input type="file" id="{key}-file" '
            f'data-upload="{key}" accept="image/png,image/jpeg,image/webp"></label>'
        )
    return f'<div class="buttons">{"".join(made)}</div>'


def _sliders() -> str:
    note = "Largest cost of removal first. A dimension that is switched off is decoded as zero."
    return (
        f'<section class="sliders" aria-label="Dimensions"><h2>Dimensions</h2>{elements.paragraph(note, "note")}'
        '<div class="buttons"><button type="button" id="back">Back to the input</button>'
        '<button type="button" id="all-on">Switch all on</button></div><ol id="sliders"></ol></section>'
    )


def _between(explorer: Explorer) -> str:
    some, upload = len(explorer.inputs.held) > 0, explorer.inputs.is_image
    if not some and not upload:
        return ""
    other = '<figure id="other"><img class="pixels" alt="Second input" hidden><p class="note blank">none</p></figure>'
    strip = '<img id="strip" class="pixels" alt="What lies between the two inputs" hidden>'
    return (
        '<section class="between" aria-label="Between two inputs"><h2>Between two inputs</h2>'
        '<p class="note">From the input above to a second one, in a straight line between their codes.</p>'
        f'<div class="pair">{other if upload else ""}<div>'
        '<p id="other-title" class="note" role="status">No second input is chosen.</p>'
        f"{_chooser('other', some, upload)}"
        '<div class="slide"><label for="way">From the first to the second</label>'
        '<input type="range" id="way" min="0" max="1" step="0.01" value="0" autocomplete="off" disabled>'
        f'<output id="way-value" for="way">0%</output></div></div></div>{strip if upload else ""}</section>'
    )


def _asset(name: str) -> str:
    return (package_files("narrows.explorer") / "assets" / name).read_text(encoding="utf-8")
