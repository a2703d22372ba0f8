"""What is typed is taken at its word: numbers are not rounded, and no empty path is the current folder."""

import pytest

from narrows.cli import main


@pytest.mark.parametrize("word", ["2.5", "2.5e0", "25e-1", "1e3", "nan", "inf", "1.5e400", "four", ""])
def test_what_is_not_a_whole_number_is_refused(word, capsys):
    """`--n 2.5e0` trained with 2."""
    assert main(["train", f"--n={word}"]) == 2
    assert "--n must be a whole number or auto; it is " in capsys.readouterr().err


@pytest.mark.parametrize("word", ["0x0", "0.0", "-0", "0e0"])
def test_whole_numbers_may_be_written_in_other_ways(word, capsys):
    assert main(["train", f"--n={word}"]) == 2
    expected = "must be a whole number or auto" if word == "0e0" else "must be at least 1; it is 0"
    assert expected in capsys.readouterr().err


def test_decimals_with_a_comma(capsys):
    assert main(["train", "--tau", "0,5"]) == 2
    assert "--tau must be a number; it is '0,5'; write decimals with a point" in capsys.readouterr().err


def test_more_threads_than_any_machine_has(capsys):
    assert main(["train", "--threads", "100000000"]) == 2
    assert capsys.readouterr().err == "narrows: error: --threads must be at most 1,024; it is 100000000\n"
