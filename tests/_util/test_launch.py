"""What the launcher's variables say, and who speaks."""

import pytest

from narrows import NarrowsError
from narrows._util.launch import PLACE, check_launch, is_first_process, is_first_to_report

WHOLE = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def place(monkeypatch):
    def set_place(**variables: str) -> None:
        for name in PLACE:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_place


def test_a_process_without_a_launcher_speaks_for_itself(place):
    place()
    check_launch()
    assert is_first_process()
    assert is_first_to_report()
    place(MASTER_ADDR="head", MASTER_PORT="1", WORLD_SIZE="1")  # as some clusters set for everybody
    check_launch()
    assert is_first_process()


def test_one_of_two_processes_is_silent(place):
    place(**WHOLE)
    check_launch()
    assert not is_first_process()
    assert not is_first_to_report()
    place(**{**WHOLE, "RANK": "0"})
    assert is_first_process()


@pytest.mark.parametrize("name", [name for name in PLACE if name not in ("RANK", "LOCAL_RANK")])
def test_variables_that_are_left_over_are_named(place, name):
    place(**{key: value for key, value in WHOLE.items() if key != name})
    with pytest.raises(NarrowsError, match=rf"but not {name}; start narrows with torchrun, or unset RANK"):
        check_launch()
    assert is_first_process(), "nobody else can say it"


def test_a_number_of_processes_alone_is_left_over_too(place):
    place(WORLD_SIZE="2")
    with pytest.raises(NarrowsError, match=r"has WORLD_SIZE, .* but not RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT"):
        check_launch()


@pytest.mark.parametrize(("name", "value"), [("RANK", "one"), ("WORLD_SIZE", ""), ("MASTER_PORT", "-1"), ("RANK", "2")])
def test_variables_that_make_no_sense_are_refused(place, name, value):
    place(**{**WHOLE, name: value})
    with pytest.raises(NarrowsError, match=r"whole number|counted from 0, of 2"):
        check_launch()
