import numpy as np
import pytest
import torch

from narrows import NarrowsError
from narrows._util.checks import COUNT, NUMBER, SHARE, TEXT, argument, check, list_of, one_of, optional


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
