"""What a checkpoint holds, entry by entry: names, types and shapes.

The digest of a checkpoint tells that it is whole, not that it makes sense: another program, or a stranger, may have
written it. So every state is compared with this description before any of it is used. Each part of a run that has a
state describes it here or, for recipes, beside the code that makes it (`Recipe.describe_state`).
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from narrows._util.checks import (
    ABOVE_ZERO,
    FLAG,
    MEASURED,
    OBJECT,
    TEXT,
    WHOLE,
    Rule,
    check,
    indices_below,
    list_of,
    whole_below,
)
from narrows._util.schema import Each, Either, Schema, Some, exactly, require
from narrows._util.tensors import finite, generator_state, like, like_all
from narrows.data.readers.shards import changed_since
from narrows.model.vae import GatedVAE
from narrows.runs.records import DecisionRow, MetricRow, parse_costs
from narrows.training.checkpoint import OtherRun
from narrows.training.config import config_from_dict, to_dict

if TYPE_CHECKING:
    from narrows.training.trainer import Trainer

MAY_CHANGE = (
    "data", "steps", "effort", "device", "threads", "compile", "track", "log_every", "eval_every", "checkpoint_every"
)  # fmt: skip
"""Settings that may differ when a run is resumed; data that changed are recognised by their fingerprint."""
HELD_OUT: Schema = {
    "error": MEASURED,
    "high": MEASURED,
    "error_at_mean": MEASURED,
    "count": WHOLE,
    "spread": MEASURED,
}
"""The errors of a candidate (`HeldOut`)."""


def check_state(trainer: "Trainer", state: Any, same_run: bool = True, began: float = math.inf) -> None:
    """Check a state before any of it is used.

    Arguments:
        trainer: A trainer that is to continue from it.
        state: What a checkpoint holds.
        same_run: Whether it must be of this run; otherwise a run with another tau on the same data will do.
        began: When this run began, so that shards that have changed since can be named.

    Raises:
        OtherRun: The data, or a setting on which training depends, have changed since.
        NarrowsError: An entry is missing, unknown, or not what it must be.
    """
    require(state, Rule("an object", lambda value: isinstance(value, dict)), "its content")
    check(state, {"config": OBJECT, "fingerprint": TEXT})
    config_from_dict(state["config"], "config")
    if same_run:
        _check_same_run(trainer, state, began)
    require(state, describe_state(trainer))


def _check_same_run(trainer: "Trainer", state: dict[str, Any], began: float) -> None:
    if state["fingerprint"] != trainer.plan.fingerprint:
        data, changed = trainer.config.data, changed_since(trainer.config.data, began)
        more = f" and {len(changed) - 1:,} more shards" if len(changed) > 1 else ""
        named = f" ({changed[0]}{more} changed after it began)" if changed else ""
        raise OtherRun(
            f"the data {data} are not those this run was started with{named}; nothing was changed: restore the data, "
            "or start a new run"
        )
    for name, value in to_dict(trainer.config).items():
        trained_with = state["config"].get(name, value)
        if name not in MAY_CHANGE and value != trained_with:
            raise OtherRun(
                f"the settings of this run say {name} = {value!r}, but it was trained with {trained_with!r}; restore "
                f"that value in its config.json, or start a new run"
            )


def describe_state(trainer: "Trainer") -> Schema:
    """Return the description of a run's state, from the parts of its trainer."""
    return {
        "step": WHOLE,
        "validated": WHOLE,
        "seconds": MEASURED,
        "looks": list_of(WHOLE),
        "config": OBJECT,
        "fingerprint": TEXT,
        "recipe": trainer.recipe.describe_state(),
        "noise": generator_state(trainer.noise),
        "totals": like(trainer.totals),
        "objective": {
            **like_all(trainer.objective.state_dict()),
            **{name: finite(like(weights)) for name, weights in trainer.objective.named_parameters()},
        },
        "optimiser": describe_optimiser(trainer.optimiser),
        "batches": {"epoch": WHOLE, "position": whole_below(trainer.batches.per_epoch + 1)},
        "selection": describe_selection(trainer.model),
        "records": {
            "metrics.csv": Each(_line(MetricRow.parse)),
            "decisions.csv": Each(_line(lambda line: DecisionRow.parse(line, trainer.model.n))),
            "costs.csv": Each(_line(parse_costs)),
        },
    }


def describe_selection(model: GatedVAE) -> Schema:
    """Return the description of the models that a run keeps, of which each is a state of the whole model."""
    passed: dict[Any, Schema] = {"kept": indices_below(model.n), "step": WHOLE, "state": like_all(model.state_dict())}
    candidate: Schema = {**passed, "validation": HELD_OUT, "final": FLAG}
    return {
        "regular": Each(candidate),
        "at_end": Each(candidate),
        "passed": Each(passed),
        "best": Rule("an error and a count", lambda v: _pair(v) and MEASURED.holds(v[0]) and WHOLE.holds(v[1])),
    }


def describe_optimiser(optimiser: torch.optim.Optimizer) -> Schema:
    """Return the description of an optimiser's state: its moments are as large as the parameters they belong to.

    Of its settings only the learning rate changes while a run trains.
    """
    groups: list[Schema] = []
    for group in optimiser.state_dict()["param_groups"]:
        same: dict[Any, Schema] = {name: exactly(value) for name, value in group.items() if name != "initial_lr"}
        before: Schema = {**same, "lr": ABOVE_ZERO}
        groups.append(
            Either(before, {**same, "lr": ABOVE_ZERO, "initial_lr": ABOVE_ZERO})
        )  # the last phase lowers the rate
    parameters = [(p, group) for group in optimiser.param_groups for p in group["params"]]
    moments = {i: _moments(p, group.get("orthogonal", False)) for i, (p, group) in enumerate(parameters)}
    return {"param_groups": groups, "state": Some(moments)}


def _moments(parameter: torch.Tensor, orthogonal: bool) -> Schema:
    """Return the description of one parameter's moments: Muon's for a matrix that is orthogonalised, else Adam's."""
    steps = like(torch.zeros(()))
    if orthogonal:
        return {"step": steps, "momentum": like(parameter.flatten(1))}
    return {"step": steps, "exp_avg": like(parameter), "exp_avg_sq": like(parameter)}


def _pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _line(parse: Callable[[str], object]) -> Rule:
    def holds(value: Any) -> bool:
        try:
            return type(value) is str and parse(value) is not None
        except ValueError:
            return False

    return Rule("a line of the run's records", holds)
