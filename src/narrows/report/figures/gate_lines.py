"""Which gates were open when, from what the run recorded.

The fast recipe writes every closing and every reopening into decisions.csv, gate by gate. The paper's recipe records
only how many gates are open; there, line k is drawn while at least k are.
"""

import math
from collections.abc import Iterable, Sequence

from narrows.report.contents import RunContents
from narrows.report.figures.specification import GateLine
from narrows.runs.records import DecisionRow, MetricRow

MOST_GATES = 10_000
"""Gates that are drawn; with more, single lines cannot be told apart."""


def gate_lines(run: RunContents) -> list[GateLine]:
    """Return a run's lines: first the gates that are open at its end, then those that closed last.

    Gates that were never open, as in a front's later runs, have no line; more than 10,000 gates have none at all.
    """
    if not run.rows or run.n > MOST_GATES:
        return []
    if run.recipe.samples_gates:
        return lines_by_count(run.rows, run.n)
    lines = lines_by_gate(run.decisions, _open_at_start(run), run.n, run.rows[-1].step)
    return [line for line in lines if line.spans]


def open_counts(decisions: Sequence[DecisionRow], n: int, end: int) -> tuple[list[int], list[int]]:
    """Return the batches at which gates closed or reopened, and how many were open from then on."""
    at, count = [0], [decisions[0].open if decisions else n]  # a front's later runs begin with fewer
    for decision in decisions:
        change = {"close": -1, "restore": 1}.get(decision.action, 0) * len(decision.gates.split())
        at.append(decision.step)
        count.append(decision.open + change)
    return [*at, end], [*count, count[-1]]


def lines_by_gate(decisions: Iterable[DecisionRow], at_start: Iterable[int], n: int, end: int) -> list[GateLine]:
    """Follow every gate through the decisions."""
    opened: dict[int, int] = dict.fromkeys(at_start, 0)
    lines = [GateLine(f"gate {gate}") for gate in range(n)]
    for decision in decisions:
        for gate in map(int, decision.gates.split()):
            line = lines[gate]
            if decision.action == "close" and gate in opened:
                line.spans.append((opened.pop(gate), decision.step))
                line.changes.append((decision.step, "closed"))
            elif decision.action == "restore" and gate not in opened:
                opened[gate] = decision.step
                line.changes.append((decision.step, "reopened"))
    for gate, line in enumerate(lines):
        line.open = gate in opened
        if line.open:
            line.spans.append((opened[gate], end))
    return sorted(lines, key=lambda line: -math.inf if line.open else -line.changes[-1][0] if line.changes else 0)


def lines_by_count(rows: Sequence[MetricRow], n: int) -> list[GateLine]:
    """Draw line k while at least k gates are open, as if the gate with the highest number closed first."""
    decisions, opened = [], n
    for row in rows:
        action, gates = (
            ("close", range(row.open, opened)) if row.open < opened else ("restore", range(opened, row.open))
        )
        decisions.append(DecisionRow(row.step, action, opened, 0.0, " ".join(map(str, gates))))
        opened = row.open
    lines = lines_by_gate(decisions, range(n), n, rows[-1].step)
    for k, line in enumerate(lines, 1):
        line.name = f"{k} or more"
    return lines


def _open_at_start(run: RunContents) -> Iterable[int]:
    """Return the gates that the run began with: all of them, or in a front those that the tau before it left open."""
    began_with = run.decisions[0].open if run.decisions else run.rows[0].open
    if began_with == run.n:
        return range(run.n)
    first: dict[int, str] = {}
    for decision in run.decisions:
        for gate in map(int, decision.gates.split()):
            first.setdefault(gate, decision.action)
    costs = run.files.read_first_costs() if run.first_costs is None else run.first_costs
    known = {gate for gate, cost in enumerate(costs) if cost is not None}
    known |= set(run.result.kept) if run.result else set()  # costs are unknown at first where a closing goes on
    return {gate for gate in known if first.get(gate) != "restore"} | {g for g in first if first[g] == "close"}
