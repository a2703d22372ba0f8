"""A quick part of the fault campaigns; `make faults` runs them at length."""

from functools import partial

import pytest

from faults.again import send_again
from faults.campaign import Attack, attack_once, campaign
from faults.damage import damage
from faults.disks import fill
from faults.elastic import kill_one
from faults.kills import kill
from faults.scenarios import Place, Wrong, compare, contents
from faults.signals import send
from faults.together import collide


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(
    ("attack", "only", "count", "unit"),
    [
        (kill, "fast", 2, "kills"),
        (partial(send_again, times=4), "fast", 1, "runs"),
        (kill_one, "paper", 1, "kills"),
        (send, "paper", 1, "signals"),
        (fill, "fast", 1, "full disks"),
        (damage, "fast", 1, "damaged files"),
        (collide, "paper", 1, "pairs"),
    ],
    ids=lambda value: getattr(value, "func", value).__name__ if callable(value) else None,
)
def test_nothing_is_lost(place, attack: Attack, only: str, count: int, unit: str):
    tally = campaign(attack, place, count, seed=1, unit=unit, only=only)
    assert tally.failures == []
    assert tally.done[unit] >= count


def test_a_run_that_differs_is_noticed(place):
    """Otherwise no campaign could fail."""
    place.prepare("paper")
    out = place.folder / "undisturbed-paper"
    for name in ("model.safetensors", "metrics.csv", "result.json"):
        before = (out / name).read_bytes()
        (out / name).write_bytes(before.replace(b"1", b"2"))
        with pytest.raises(Wrong, match=rf"differs from the undisturbed run: {name}"):
            compare(contents(out), place.undisturbed["paper"])
        (out / name).write_bytes(before)
    (out / "curves.png").write_bytes((out / "curves.png").read_bytes()[:-100])
    with pytest.raises(Wrong, match=r"curves.png is half-written"):
        contents(out)


def test_a_failed_case_is_named_with_its_scenario(place):
    def fail(*_):
        raise Wrong("this must not happen")

    with pytest.raises(Wrong, match=r"^paper: this must not happen$"):
        attack_once(fail, place, 0, 0, "paper")
