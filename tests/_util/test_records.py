from dataclasses import asdict, dataclass, field
from typing import Literal

import pytest
from hypothesis import given, settings, strategies as st

from narrows._util.errors import NarrowsError
from narrows._util.records import LARGEST, LARGEST_WHOLE, read_record
from refusals import refused


@dataclass
class Inner:
    rate: float
    names: dict[str, float]


@dataclass
class Outer:
    count: int
    kind: Literal["a", "b"]
    inner: Inner
    parts: list[Inner]
    sizes: tuple[int, ...] = ()
    note: str | None = None
    flag: bool = False
    extra: list[float] = field(default_factory=list)


GOOD = {
    "count": 3,
    "kind": "a",
    "inner": {"rate": 0.5, "names": {"x": 1.0}},
    "parts": [{"rate": 1, "names": {}}],
    "sizes": [1, 2],
    "note": "n",
    "flag": True,
    "extra": [1.0],
}


def test_what_was_written_is_read():
    record = read_record(Outer, GOOD)
    assert asdict(record) == {**GOOD, "sizes": (1, 2)}
    assert type(record.parts[0].rate) is float
    assert read_record(Outer, {key: GOOD[key] for key in ("count", "kind", "inner", "parts")}).note is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": "four"}, "count must be a whole number from 0 on; it is 'four'"),
        ({"count": True}, "count must be a whole number"),
        ({"count": -1}, "count must be a whole number"),
        ({"count": 10**400}, "count must be a whole number"),
        ({"kind": "c"}, "kind must be one of a, b; it is 'c'"),
        ({"inner": {"rate": 0.5}}, "inner.names is missing"),
        ({"inner": []}, "inner must be an object; it is []"),
        ({"parts": [{"rate": float("inf"), "names": {}}]}, "parts[0].rate must be a number; it is inf"),
        ({"parts": {}}, "parts must be a list"),
        ({"inner": {"rate": 10**400, "names": {}}}, "inner.rate must be a number; it is 1000"),
        ({"inner": {"rate": 1, "names": {"x\x1b[31m": "y"}}}, "inner.names.x\\x1b[31m must be a number"),
        ({"note": 3}, "note must be a text; it is 3"),
        ({"flag": 1}, "flag must be true or false; it is 1"),
        ({"nots": 3}, "nots does not exist; did you mean 'note'?"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    assert refused(read_record, Outer, {**GOOD, **change}).startswith(message)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "rate", "names"]), inner),
    max_leaves=12,
)


@settings(derandomize=True, deadline=None)
@given(ANY)
def test_anything_at_all_is_read_or_refused_and_what_is_read_can_be_used(content):
    try:
        record = read_record(Outer, content)
    except NarrowsError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    assert 0 <= record.count <= LARGEST_WHOLE
    assert abs(record.inner.rate) <= LARGEST
