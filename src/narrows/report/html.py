"""Pages: small records of what a page shows, drawn by the Jinja2 templates in templates/.

A `Page` has blocks below its heading and `Section`s of blocks. A block draws itself with the macro of its name in
templates/blocks.html, so `{{ block }}` is all that a template says. Autoescape is on: names of files and columns and
messages stay text wherever they appear; text may hold `code` in backquotes. A page is one file, with its style, its
scripts and its images inside, and its policy forbids the browser to load anything.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from markupsafe import Markup

from narrows._util import markup
from narrows._util.text import shell_word
from narrows.report.figures.specification import Chart


class Block:
    """A piece of a page, which draws itself wherever a template prints it."""

    def __html__(self) -> str:
        return getattr(ENVIRONMENT.get_template("blocks.html").module, type(self).__name__.lower())(self)


@dataclass(frozen=True)
class Text(Block):
    """A paragraph."""

    text: str
    style: str = "note"
    """Its class: note, lead, or nothing."""
    hidden: bool = False


@dataclass(frozen=True)
class Heading(Block):
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Facts(Block):
    """Numbers in tiles."""

    entries: Sequence[tuple[str, str, str]]
    """Name, value and a note for each."""


@dataclass(frozen=True)
class Table(Block):
    """A table, whose first column names the rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: bool = False
    """Whether the cells after the first are numbers, which are aligned."""
    bars: Sequence[float] = ()
    """One number per row, drawn as a bar after the third column."""
    longest: float = 0.0
    """The number that fills the bar's column."""

    def width(self, row: int) -> float:
        """Return the length of a row's bar in percent of its column."""
        value = self.bars[row]
        return 100 * max(value, 0.0) / self.longest if self.longest > 0 and math.isfinite(value) else 0.0


@dataclass(frozen=True)
class Command(Block):
    """A command line, which breaks between its options only."""

    words: Sequence[str]

    def options(self) -> list[str]:
        """Return the words, quoted for a shell, with each option and its value together."""
        quoted = (f"\n{shell_word(word)}" if word.startswith("--") else shell_word(word) for word in self.words)
        return " ".join(quoted).split(" \n")


@dataclass(frozen=True)
class ChartFigure(Block):
    """A chart, which the page's script draws."""

    id: str
    chart: Chart
    note: str = ""


@dataclass(frozen=True)
class Picture(Block):
    """An image from a data URI, with its caption and, if it has rows of images, their names."""

    source: str
    alt: str
    title: str = ""
    note: str = ""
    rows: Sequence[str] = ()
    style: str = "pixels"


@dataclass(frozen=True)
class Group(Block):
    """Blocks beside or below each other, in an element of this class."""

    style: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Details(Block):
    """Blocks that appear when their summary is clicked."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Links(Block):
    """A line of links: a lead-in, then a name and an address for each."""

    text: str
    links: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """A part of the page, with its heading."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    """What the browser's tab shows."""
    heading: str
    about: str = ""
    """The line above the heading."""
    badge: tuple[str, str] | None = None
    """Its class and its text."""
    blocks: Sequence[Block] = ()
    """What follows the heading."""
    sections: Sequence[Section] = ()
    """Sections without blocks are left out."""
    live: Mapping[str, float] = field(default_factory=dict)
    """The numbers that assets/live.js needs; empty unless the page is to reload itself."""

    def html(self) -> str:
        """Return the page's text; bytes of a path that are not UTF-8 are written as escapes."""
        sections = [section for section in self.sections if section.blocks]
        text = ENVIRONMENT.get_template("page.html").render(page=self, sections=sections)
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def asset(name: str, package: str = "narrows.report") -> Markup:
    """Return one of a package's scripts or style sheets."""
    return Markup((files(package) / "assets" / name).read_text(encoding="utf-8"))


ENVIRONMENT = markup.environment("narrows.report")
ENVIRONMENT.globals["asset"] = asset
ENVIRONMENT.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
