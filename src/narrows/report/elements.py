"""The pieces of a self-contained page: one document with its style, its script and its images inside.

Everything that comes from outside (names of files and columns, messages) is escaped here; what is passed on as `html`
was made here. The page carries a policy that forbids the browser to load anything at all.
"""

import html
import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def escape(text: object) -> str:
    """Make text safe inside elements and attributes."""
    return html.escape(str(text))


def inline(text: str) -> str:
    """Escape text that may have `code` in it."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def document(title: str, body: str, live: dict[str, float] | None = None) -> str:
    """Return a whole page; the script comes with it if there are charts, `live` if it is to load itself again."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head = f"{meta}{policy}<title>{escape(title)}</title><style>{asset('report.css')}</style>"
    script = f"<script>{asset('report.js')}</script>\n" if 'class="chart"' in body else ""
    kept = ""
    if live is not None:
        kept = "".join(f' data-{name}="{value:.3f}"' for name, value in live.items())
        script += f"<script>{asset('live.js')}</script>\n"
    return f'<!doctype html>\n<html lang="en"{kept}><head>{head}</head>\n<body>\n{body}\n{script}</body></html>\n'


def asset(name: str) -> str:
    """Return one of the files that come with the package."""
    return (files("narrows.report") / "assets" / name).read_text(encoding="utf-8")


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text that may have `code` in it."""
    return f"<p{_class(kind)}>{inline(text)}</p>"


def section(identity: str, title: str, *parts: str) -> str:
    """Return a part of the page with its heading; parts are html."""
    return f'<section id="{identity}"><h2>{inline(title)}</h2>\n' + "\n".join(parts) + "</section>"


def navigation(links: Iterable[tuple[str, str]]) -> str:
    """Return the way to the sections: (id, name)."""
    items = "".join(f'<li><a href="#{identity}">{escape(name)}</a></li>' for identity, name in links)
    return f'<nav aria-label="Sections"><ul>{items}</ul></nav>'


def facts(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return numbers with their names and a word about each."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(word)}</small></dd></div>"
        for name, value, word in entries
    )
    return f'<dl class="facts">{cells}</dl>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """Return a table; the first cell of a row is its name, the others are numbers, aligned, if `numbers`."""
    kind = _class("number" if numbers else "")
    head = "".join(f'<th scope="col"{kind if i else ""}>{inline(cell)}</th>' for i, cell in enumerate(header))
    body = "".join(
        f'<tr><th scope="row">{inline(first)}</th>{"".join(f"<td{kind}>{inline(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    scroll = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
    return f"{scroll}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def bar_table(header: Sequence[str], rows: Sequence[tuple[Sequence[str], float]], place: int, most: float) -> str:
    """Return a table with a bar in front of its cell `place`, as long as the row's number beside `most`."""
    head = [f'<th scope="col"{_class("number" if i else "")}>{inline(h)}</th>' for i, h in enumerate(header)]
    head.insert(place, '<th aria-hidden="true"></th>')
    lines = []
    for (name, *rest), value in rows:
        width = 100 * max(value, 0.0) / most if most > 0 and math.isfinite(value) else 0.0
        cells = [f'<th scope="row">{inline(name)}</th>', *(f'<td class="number">{inline(cell)}</td>' for cell in rest)]
        cells.insert(place, f'<td class="bar" aria-hidden="true"><span style="width:{width:.1f}%"></span></td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    scroll = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
    body = f"<thead><tr>{''.join(head)}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'{scroll}<table class="bars">{body}</table></div>'


def command(words: Sequence[str]) -> str:
    """Return a command line that breaks between its options only; words are quoted for a shell."""
    told: list[list[str]] = []
    for word in words:
        if not told or word.startswith("--"):
            told.append([])
        told[-1].append(shlex.quote(word))
    spans = " ".join(f"<span>{escape(' '.join(option))}</span>" for option in told)
    return f"<pre><code>{spans}</code></pre>"


def chart(identity: str, title: str, spec: dict[str, Any], word: str = "") -> str:
    """Return a chart that the page's script draws from `spec` (report.js says what may be in it)."""
    content = json.dumps(_plain(spec), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    caption = f"<figcaption>{inline(title)}{_small(word)}</figcaption>"
    data = f'<script type="application/json" id="{identity}">{content}</script>'
    return f'<figure class="chart" data-chart="{identity}">{caption}</figure>{data}'


def image(source: str, about: str, kind: str = "pixels") -> str:
    """Return an image from a data URI, with what it shows."""
    return f'<img{_class(kind)} src="{source}" alt="{escape(about)}">'


def sheet(source: str, about: str, rows: Sequence[str], title: str, word: str = "") -> str:
    """Return rows of images with their names beside them, as one figure."""
    names = "".join(f"<li>{escape(row)}</li>" for row in rows)
    body = f'<div class="sheet"><ol>{names}</ol>{image(source, about)}</div>'
    return f"<figure><figcaption>{inline(title)}{_small(word)}</figcaption>{body}</figure>"


def _small(word: str) -> str:
    return f"<small>{inline(word)}</small>" if word else ""


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _plain(value: Any) -> Any:
    """Return numbers with five digits, and null for what is no number."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
