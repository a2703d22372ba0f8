"""The four experiments by name. To add one, write its `jobs` and give it a line below and in `plan.Name`."""

from collections.abc import Callable

from narrows._util.errors import NarrowsError, setting
from narrows.paper import front, reconstructions, table, training
from narrows.paper.plan import Job, Name, Options

EXPERIMENTS: dict[Name, Callable[[Options], list[Job]]] = {
    "training": training.jobs,
    "front": front.jobs,
    "reconstructions": reconstructions.jobs,
    "table": table.jobs,
}


def plan(name: Name, options: Options) -> list[Job]:
    """Return the jobs of an experiment that the options ask for."""
    options.check(name)
    jobs, only = EXPERIMENTS[name](options), options.only_names()
    if only is None:
        return jobs
    known = list(dict.fromkeys(part for job in jobs for part in job.names))
    for part in only:
        if part not in known:
            parts = ", ".join(known)
            raise NarrowsError(f"{setting('only')}: {part!r} is not a part of this experiment; its parts are {parts}")
    return [job for job in jobs if set(only) & set(job.names)]
