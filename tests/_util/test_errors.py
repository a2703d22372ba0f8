"""An error marks the settings it is about, and each surface spells them in its own way."""

import pickle

import pytest

from narrows._util.errors import NarrowsError, OptionError, as_option, setting


def test_each_surface_spells_a_setting():
    error = NarrowsError(f"{setting('split_seed', 7)} and {setting('network', 'conv')} need {setting('out')}")
    assert str(error) == "split_seed=7 and network='conv' need out"
    assert error.spelled(as_option) == "--split-seed 7 and --network conv need --out"
    assert error.spelled(lambda name, value: name.upper()) == "SPLIT_SEED and NETWORK need OUT"


def test_text_from_outside_is_never_taken_for_a_setting():
    error = NarrowsError("a file called --tau {tau} %s \\1 is not an array")
    assert str(error) == error.spelled(as_option) == "a file called --tau {tau} %s \\1 is not an array"


def test_an_error_inside_another_keeps_its_marks():
    inner = NarrowsError(f"{setting('batch')} must be at least 1; it is 0")
    assert NarrowsError(f"c.toml: {inner.marked}").spelled(as_option) == "c.toml: --batch must be at least 1; it is 0"


def test_an_option_that_a_command_lacks_is_not_advised():
    error = OptionError("a.png is broken", f"skip it with {setting('skip_broken')}", "remove it")
    assert error.spelled(as_option) == "a.png is broken; skip it with --skip-broken"
    assert str(error.otherwise) == "a.png is broken; remove it"


@pytest.mark.parametrize("error", [NarrowsError(f"{setting('n')} is 0"), OptionError("a", setting("n"), "b")])
def test_errors_survive_the_way_between_processes(error):
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
