"""Bad calls of sweeps."""

import narrows
from faults.calls.frame import NOT_PATHS, PATH, Case, each, one

SETTINGS = {"data": "nowhere.npy", "tau": [1, 2]}

SWEEPS: list[Case] = [
    *each(
        "sweep(settings)",
        "settings must be a .toml or .json file or a dict, as text or a Path",
        lambda g, v: narrows.sweep(v),
        (None, 5, b"run", ["a.toml"], "", "a\0b"),
    ),
    *one("sweep(settings)", ".*nowhere.toml: No such file", lambda g: narrows.sweep("nowhere.toml")),
    *one("sweep(settings)", ".*text.txt is damaged", lambda g: narrows.sweep(g.text)),
    *one("sweep(settings)", "the sweep has an unknown setting 'x'", lambda g: narrows.sweep({"x": 1})),
    *one("sweep(settings)", "the sweep: there are no settings", lambda g: narrows.sweep({})),
    *one("sweep(settings)", "the sweep: tau is an empty list", lambda g: narrows.sweep({"tau": []})),
    *one("sweep(settings)", "the sweep: names of settings are texts; 3 is not", lambda g: narrows.sweep({3: 1})),
    *one("sweep(settings)", "the sweep: seed must be a value or a list", lambda g: narrows.sweep({"seed": g.x})),
    *each("sweep(out)", f"out {PATH}", lambda g, v: narrows.sweep(SETTINGS, v), NOT_PATHS[1:]),
    *one(
        "sweep(out)",
        ".*is not empty and holds no sweep",
        lambda g: narrows.sweep({"data": "dsprites", "tau": [1, 2]}, g.run),
    ),
    *each("sweep(engine)", "engine must be", lambda g, v: narrows.sweep(SETTINGS, engine=v), (None, "slurm", 3, [])),
    *each("sweep(jobs)", "jobs must be", lambda g, v: narrows.sweep(SETTINGS, jobs=v), (0, -1, 2.5, "2", True)),
    *each(
        "sweep(address)",
        "address must be",
        lambda g, v: narrows.sweep(SETTINGS, engine="ray", address=v),
        (5, b"host:1", ["host:1"]),
    ),
    *one("sweep(address)", "address is for engine='ray'", lambda g: narrows.sweep(SETTINGS, address="host:1")),
    *each("sweep(resume)", "resume must be", lambda g, v: narrows.sweep(SETTINGS, resume=v), (None, "yes", 1)),
    *each("sweep(listener)", "listener must be", lambda g, v: narrows.sweep(SETTINGS, listener=v), ("x", 3)),
]
