"""The page's pieces: whatever comes from outside is text, never markup, and nothing is loaded."""

import html
import json
import re
import shlex

from narrows.report import elements

HOSTILE = "</script><img src=x onerror=\"alert(1)\"> & '`code`'"


def test_text_from_outside_stays_text():
    made = [
        elements.paragraph(HOSTILE),
        elements.section("one", HOSTILE),
        elements.facts([(HOSTILE, HOSTILE, HOSTILE)]),
        elements.table([HOSTILE, "b"], [[HOSTILE, HOSTILE]]),
        elements.bar_table([HOSTILE, "b"], [([HOSTILE, HOSTILE], 1.0)], 2, 1.0),
        elements.chart("c", HOSTILE, {"about": HOSTILE}, HOSTILE),
        elements.sheet("data:,", HOSTILE, [HOSTILE], HOSTILE, HOSTILE),
        elements.command([HOSTILE]),
        elements.navigation([("one", HOSTILE)]),
        elements.document(HOSTILE, ""),
    ]
    for part in made:
        assert "<img src=x" not in part
        assert part.count("</script>") == part.count("<script")


def test_a_charts_numbers_come_back_and_what_is_no_number_is_null():
    part = elements.chart("c", "title", {"y": [1.0, float("nan"), float("inf"), 1 / 3, 7], "name": "a<b"})
    content = re.search(r'<script type="application/json" id="c">(.*?)</script>', part)
    assert content is not None
    assert json.loads(content[1]) == {"y": [1.0, None, None, 0.33333, 7], "name": "a<b"}


def test_a_bar_is_as_long_as_its_number_and_never_negative():
    part = elements.bar_table(["a", "b"], [(["x", "4"], 4.0), (["y", "1"], 1.0), (["z", "-1"], -1.0)], 2, 4.0)
    assert re.findall(r"width:([\d.]+)%", part) == ["100.0", "25.0", "0.0"]


def test_a_document_has_its_style_and_forbids_the_network():
    plain, drawn = elements.document("t", "<p>x</p>"), elements.document("t", elements.chart("c", "t", {}))
    assert "default-src 'none'" in plain
    assert "prefers-color-scheme: dark" in plain
    assert "@media print" in plain
    assert "class Chart" not in plain
    assert "class Chart" in drawn


def test_a_command_can_be_pasted():
    words = ["narrows", "train", "my file's.npy", "--columns", "a b,<c>", "--tau", "3.0"]
    text = html.unescape(re.sub(r"<[^>]+>", "", elements.command(words)))
    assert shlex.split(text) == words
