"""The pages' blocks: text from outside stays text, and nothing is loaded."""

import html
import json
import re
import shlex

import pytest
from jinja2 import UndefinedError

from narrows.report.figures.specification import Axis, Chart, Rule, Series
from narrows.report.html import (
    ENVIRONMENT,
    ChartFigure,
    Command,
    Details,
    Facts,
    Group,
    Heading,
    Links,
    Page,
    Picture,
    Section,
    Table,
    Text,
)

HOSTILE = "</script><img src=x onerror=\"alert(1)\"> & '`code`'"


def chart(name: str = "", y: tuple[float, ...] = (1.0,), **more: object) -> Chart:
    return Chart(name, name, Axis(name, 0, 1), Axis(name, 0, 1), series=[Series(name, list(y), list(y))], **more)


def test_text_from_outside_stays_text():
    h = HOSTILE
    blocks = [
        Text(h),
        Heading(h),
        Facts([(h, h, h)]),
        Table([h, "b"], [[h, h]]),
        Table([h, "b", "c"], [[h, h, h]], numbers=True, bars=[1.0], longest=1.0),
        ChartFigure("c", chart(h, rules=[Rule("x", 1, h, 0)]), h),
        Picture("data:,", h, h, h, [h]),
        Command([h]),
        Links(h, [(h, h)]),
        Group("grid", [Text(h)]),
        Details(h, [Text(h)]),
    ]
    page = Page(h, h, h, ("open", h), blocks, [Section("one", h, blocks)]).html()
    for part in [*(block.__html__() for block in blocks), page]:
        assert "<img src=x" not in part
        assert 'onerror="' not in part
        assert part.count("</script>") == part.count("<script")
    assert "<code>code</code>" in Text(h).__html__()


def test_a_name_that_a_template_misspells_is_an_error():
    with pytest.raises(UndefinedError):
        ENVIRONMENT.from_string("{{ page.titel }}").render(page=Page("t", "h"))


def test_a_charts_numbers_come_back_and_what_is_no_number_is_null():
    part = ChartFigure("c", chart("a<b", (1.0, float("nan"), float("inf"), 1 / 3, 7))).__html__()
    content = re.search(r'<script type="application/json" id="c">(.*?)</script>', part)
    assert content is not None
    (series,) = json.loads(content[1])["series"]
    assert series == {
        "name": "a<b",
        "x": [1.0, None, None, 0.33333, 7],
        "y": [1.0, None, None, 0.33333, 7],
        "colour": 0,
    }


def test_a_bar_is_as_long_as_its_number_and_never_negative():
    rows = [["x", "", "4"], ["y", "", "1"], ["z", "", "-1"]]
    part = Table(["a", "b", "c"], rows, numbers=True, bars=[4.0, 1.0, -1.0], longest=4.0).__html__()
    assert re.findall(r"width:([\d.]+)%", part) == ["100.0", "25.0", "0.0"]


def test_a_page_has_its_style_and_forbids_the_network():
    plain = Page("t", "h", blocks=[Text("x")]).html()
    drawn = Page("t", "h", sections=[Section("s", "s", [ChartFigure("c", chart())])]).html()
    assert "default-src 'none'" in plain
    assert "prefers-color-scheme: dark" in plain
    assert "@media print" in plain
    assert "class Chart" not in plain
    assert "class Chart" in drawn


def test_a_command_can_be_pasted():
    words = ["narrows", "train", "my file's.npy", "--columns", "a b,<c>", "--tau", "3.0"]
    part = Command(words).__html__()
    assert shlex.split(html.unescape(re.sub(r"<[^>]+>", "", part))) == words
    assert part.count("<span>") == 3
