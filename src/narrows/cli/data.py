"""data list, data get, data path."""

from contextlib import closing
from typing import Literal

from cyclopts import App

from narrows.cli.app import app

data_app = App(name="data", help="The sets known by name: list them, fetch one, see where they are kept.")
app.command(data_app)


@data_app.command(name="list")
def list_sets() -> int:
    """List the sets: size, shape, factors, licence, where each comes from, and whether it is cached."""
    from narrows.data import SETS
    from narrows.report.sets import describe

    print("\n\n".join(describe(one) for one in SETS.values()))
    return 0


@data_app.command
def get(name: str, /, *, source: Literal["drawn", "official"] = "official") -> int:
    """Fetch a set, verify it and make it ready, so that training needs no network.

    A download that was cut off goes on where it stopped.

    Parameters
    ----------
    name
        As in `narrows data list`.
    source
        official: the published files; drawn: draw it instead (dsprites, shapes3d).
    """
    from narrows.data import find_set, open_set
    from narrows.report.live import make_loading

    with closing(make_loading()) as loading:
        data = open_set(find_set(name), source, loading)
    print(f"{data.name}: {len(data.examples):,} examples; {data.note}")
    return 0


@data_app.command
def path(name: str | None = None, /) -> int:
    """Print the folder of the cache, or that of one set's files. NARROWS_CACHE chooses another.

    Parameters
    ----------
    name
        As in `narrows data list`.
    """
    from narrows.data import cache_folder, find_set

    print(find_set(name).folder if name else cache_folder())
    return 0
