"""A page of headings, paragraphs, tables and figures, as Markdown and as one self-contained .html file."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from narrows.report.elements import document, escape, image, inline, paragraph, table


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
        parts = [f"<h1>{inline(self.title)}</h1>"]
        for kind, content in self.blocks:
            if kind == "table":
                assert isinstance(content, list)
                parts.append(table(content[0], content[1:]))
            elif kind == "figure":
                assert isinstance(content, tuple)
                path, caption = content
                source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
                parts.append(
                    f"<figure>{image(source, caption, 'drawn')}<figcaption>{inline(caption)}</figcaption></figure>"
                )
            elif kind == "command":
                parts.append(f"<pre><code>{escape(content)}</code></pre>")
            else:
                parts.append(f"<h2>{inline(str(content))}</h2>" if kind == "heading" else paragraph(str(content)))
        return document(self.title, "\n".join(parts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
