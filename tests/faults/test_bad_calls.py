"""Every bad call is answered by one line that names what, the rule and the value, and leaves nothing behind."""

import os
import re
import resource
from collections import Counter

import pytest

from faults.bad_calls import ACCEPTED, TABLE, Good

MOST_MEMORY = 256 << 10
"""Kilobytes that one call may add to the largest memory of this process."""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return Good(tmp_path_factory.mktemp("good"))


def names():
    """Return a name for each case: what, and its number among those about the same."""
    seen = Counter()
    for case in TABLE:
        seen[case.what] += 1
        yield f"{case.what}-{seen[case.what]}"


@pytest.mark.parametrize("case", TABLE, ids=names())
def test_a_bad_call_gets_one_line(case, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(case.raises) as caught:
        case.call(good)
    text = str(caught.value)
    assert re.match(case.says, text), text
    assert text.count("\n") < case.lines, text
    assert case.names in text, text
    assert not re.search(r"--[a-z]", text), f"an option of the command line in a message for Python: {text}"
    assert len(text) < 400 * case.lines, text
    assert os.listdir(tmp_path) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


@pytest.mark.parametrize("call", ACCEPTED.values(), ids=ACCEPTED)
def test_numbers_of_any_library_and_paths_as_text_are_accepted(call, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call(good)
    assert os.listdir(tmp_path) == []


def test_everything_that_is_exported_is_in_the_table():
    import narrows

    records = {
        "Noise",
        "StepRecord",
        "Certificate",
        "Result",
        "Evaluation",
        "SweepTable",
        "NarrowsError",
    }  # made by narrows itself
    said = " ".join(f"{case.what} {case.says}" for case in TABLE)
    missing = [name for name in narrows.__all__ if name not in said and name not in records | {"__version__"}]
    assert not missing
