"""A page of headings, paragraphs, tables and figures, as Markdown and as one self-contained .html file."""

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
img { max-width: 100%; background: white; }
code { font: 0.9em ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.75rem; background: #8882; }
"""


@dataclass
class Page:
    """Blocks in reading order; text may have `code` in it."""

    title: str
    blocks: list[tuple[str, object]] = field(default_factory=list)

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self.blocks.append(("text", text))

    def heading(self, text: str) -> None:
        """Add a heading."""
        self.blocks.append(("heading", text))

    def command(self, line: str) -> None:
        """Add a command line."""
        self.blocks.append(("command", line))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table of plain cells."""
        self.blocks.append(("table", [list(header), *map(list, rows)]))

    def figure(self, path: Path, caption: str) -> None:
        """Add a figure from a .png file beside the page."""
        self.blocks.append(("figure", (path, caption)))

    def markdown(self) -> str:
        """Return the page with links to its figures."""
        parts = [f"# {self.title}"]
        for kind, content in self.blocks:
            if kind == "table":
                assert isinstance(content, list)
                head, *rows = ([_cell(cell) for cell in row] for row in content)
                lines = [head, ["---"] * len(head), *rows]
                parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
            elif kind == "figure":
                assert isinstance(content, tuple)
                parts.append(f"![{content[1]}]({content[0].name})\n\n{content[1]}")
            else:
                parts.append({"heading": "## {}", "command": "```\n{}\n```", "text": "{}"}[kind].format(content))
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return the page with its figures inside."""
        parts = [f"<h1>{_inline(self.title)}</h1>"]
        for kind, content in self.blocks:
            if kind == "table":
                assert isinstance(content, list)
                head, *rows = content
                lines = [_line(head, "th"), *(_line(row, "td") for row in rows)]
                parts.append(f"<table>{''.join(lines)}</table>")
            elif kind == "figure":
                assert isinstance(content, tuple)
                data, caption = base64.b64encode(content[0].read_bytes()).decode(), _inline(content[1])
                image = f'<img alt="{html.escape(content[1])}" src="data:image/png;base64,{data}">'
                parts.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
            elif kind == "command":
                parts.append(f"<pre><code>{html.escape(str(content))}</code></pre>")
            else:
                tag = "h2" if kind == "heading" else "p"
                parts.append(f"<{tag}>{_inline(str(content))}</{tag}>")
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        head = f"{meta}<title>{html.escape(self.title)}</title><style>{STYLE}</style>"
        body = "\n".join(parts)
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _line(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell)}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
