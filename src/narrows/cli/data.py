"""The commands `narrows data list`, `narrows data get` and `narrows data path`."""

from typing import Literal

from cyclopts import App

from narrows._util.printing import say
from narrows.cli.app import app

data_app = App(name="data", help="The named sets: list them, fetch one, print where they are kept.")
app.command(data_app)


@data_app.command(name="list")
def list_sets() -> None:
    """List the sets: size, shape, factors, licence, where each comes from, and whether it is cached."""
    from narrows.data import SETS
    from narrows.report.sets import describe

    say("\n\n".join(describe(named) for named in SETS.values()))


@data_app.command
def get(name: str, /, *, source: Literal["drawn", "official"] = "official") -> None:
    """Fetch a set, verify it and make it ready, so that training needs no network.

    An interrupted download continues where it stopped.

    Parameters
    ----------
    name
        A set of `narrows data list`.
    source
        official: the published files; drawn: draw the set instead (dsprites, shapes3d).
    """
    from narrows.data import find_set, open_set
    from narrows.report.live.listeners import show_loading

    with show_loading() as loading:
        data = open_set(find_set(name), source, loading)
    say(f"{data.name}: {len(data.examples):,} examples; {data.note}")


@data_app.command
def path(name: str | None = None, /) -> None:
    """Print the cache folder, or the folder of one set's files; NARROWS_CACHE names another cache folder.

    Parameters
    ----------
    name
        A set of `narrows data list`.
    """
    from narrows.data import cache_folder, find_set

    say(cache_folder() if name is None else find_set(name).folder)
