"""The explorer's page: its frame from templates/explorer.html, which its script fills (assets/)."""

import math

from jinja2 import PackageLoader

from narrows.explorer import uploads
from narrows.explorer.handlers import FULL, model
from narrows.explorer.inputs import MOST_UPLOADS
from narrows.explorer.models import Explorer
from narrows.report.html import ENVIRONMENT, asset

MOST_COLUMNS = 40
"""Columns of a table that are shown."""
TEMPLATES = ENVIRONMENT.overlay(loader=PackageLoader("narrows.explorer"))


def files(explorer: Explorer) -> dict[str, tuple[str, bytes]]:
    """Return everything that can be read, by name: type and content."""
    style = asset("report.css") + asset("explorer.css", "narrows.explorer")
    script = asset("vectors.js", "narrows.explorer") + asset("explorer.js", "narrows.explorer")
    return {
        "": ("text/html; charset=utf-8", html(explorer).encode()),
        "explorer.css": ("text/css; charset=utf-8", style.encode()),
        "explorer.js": ("text/javascript; charset=utf-8", script.encode()),
    }


def html(explorer: Explorer) -> str:
    """Return the page."""
    inputs, trained = explorer.inputs, explorer.model(0).trained
    columns, units = trained.columns, (trained.about.get("units") or {}).get("unit") or []
    count, ranges = min(len(columns), MOST_COLUMNS), inputs.column_ranges()
    low, high = inputs.levels if inputs.is_image else (0.0, 0.0)
    facts = {
        "first": model(explorer, {"model": 0}),
        "inputs": len(inputs.held),
        "image": inputs.is_image,
        "ranges": ranges,
        "places": _places(ranges[:count], units[:count]),
        "most": uploads.MOST_BYTES,
        "kept": MOST_UPLOADS,
    }
    return TEMPLATES.get_template("explorer.html").render(
        explorer=explorer,
        inputs=inputs,
        has_inputs=len(inputs.held) > 0,
        columns=columns,
        shown_columns=MOST_COLUMNS,
        full_difference=FULL * (high - low),
        facts=facts,
    )


def _places(ranges: list[list[float]], units: list[float]) -> list[int | None]:
    """Return the last decimal place that matters in each column: 0 for ones, -2 for hundredths, 3 for thousands.

    It divides the range from the 1st to the 99th percentile into at least a thousand steps. If the two percentiles are
    equal or unknown, it divides the column's unit instead.
    """
    spreads = [high - low for low, high in ranges] or units
    found = [spread or unit for spread, unit in zip(spreads, units or spreads, strict=True)]
    return [math.floor(math.log10(one)) - 3 if one and math.isfinite(one) else None for one in found]
