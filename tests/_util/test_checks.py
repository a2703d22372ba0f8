import numpy as np
import pytest
import torch

from narrows import NarrowsError
from narrows._util.checks import (
    COUNT,
    NUMBER,
    SHARE,
    TEXT,
    argument,
    check,
    list_of,
    new_file,
    one_of,
    optional,
    path_argument,
    several,
)


@pytest.mark.parametrize("value", [3, np.int64(3), np.array(3), torch.tensor(3)])
def test_numbers_of_any_library_become_plain_ones(value):
    plain = argument("n", value, COUNT)
    assert plain == 3
    assert type(plain) is int


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None, "3", np.array([3]), [3]])
def test_a_broken_rule_is_named_with_its_value(value):
    with pytest.raises(NarrowsError, match=r"^n must be a whole number from 1 on; it is "):
        argument("n", value, COUNT)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "1"])
def test_what_no_float_can_hold_is_no_number(value):
    assert not NUMBER.holds(value)


def test_entries_are_checked_by_name():
    rules = {"kind": one_of(("conv", "mlp")), "names": list_of(TEXT, 2), "share": optional(SHARE)}
    check({"kind": "mlp", "names": ["a", "b"], "share": None}, rules)
    with pytest.raises(NarrowsError, match=r"^model.kind must be one of conv, mlp; it is None$"):
        check({"names": ["a", "b"]}, rules, of="model.")
    with pytest.raises(NarrowsError, match=r"^names must be a list of 2, each a text; it is"):
        check({"kind": "mlp", "names": ["a"]}, rules)


def test_none_is_allowed_only_where_it_is_said():
    assert argument("n", None, COUNT, or_none=True) is None
    with pytest.raises(NarrowsError, match=r"^n must be a whole number from 1 on, or None; it is 0$"):
        argument("n", 0, COUNT, or_none=True)


@pytest.mark.parametrize(
    "value", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), torch.tensor([1, 2]), [np.int64(1), torch.tensor(2)]]
)
def test_several_values_may_come_in_any_kind_of_sequence(value):
    found = several("kept", value, COUNT, "two counts", lengths=(2,))
    assert found == [1, 2]
    assert {type(one) for one in found} == {int}


@pytest.mark.parametrize("value", [None, 1, "12", b"12", {1, 2}, {1: 2}, iter([1, 2]), [1], [1, 0], np.array([[1, 2]])])
def test_what_is_not_several_values_is_named(value):
    with pytest.raises(NarrowsError, match=r"^kept must be two counts; it is "):
        several("kept", value, COUNT, "two counts", lengths=(2,))


def test_a_path_may_be_text(tmp_path):
    assert path_argument("out", str(tmp_path)) == path_argument("out", tmp_path) == tmp_path


def test_a_new_file_needs_a_folder_and_must_not_be_one(tmp_path):
    assert new_file("out", str(tmp_path / "x")) == tmp_path / "x"
    with pytest.raises(NarrowsError, match=r"^out must be a file, and .* is a folder; add the name of a file$"):
        new_file("out", tmp_path)
    with pytest.raises(NarrowsError, match=r"^out: the folder .* does not exist; create it first$"):
        new_file("out", tmp_path / "missing" / "x")
