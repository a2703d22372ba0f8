"""Which gate was open when: one line a gate, from what the run recorded.

The fast recipe writes every closing and every opening again into decisions.csv, gate by gate. The paper's recipe only
records how many gates are open; there, line k is drawn while at least k are.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from narrows.runs import DecisionRow, MetricRow, RunFolder

Change = Literal["closed", "opened again"]


@dataclass
class GateLine:
    """One gate through a run."""

    name: str
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Batches from and to which it was open."""
    changes: list[tuple[int, Change]] = field(default_factory=list)
    """When it closed and opened again."""
    is_open: bool = True
    """At the end."""

    def last_change(self) -> int:
        """Return the batch of its last change, 0 if it never changed."""
        return self.changes[-1][0] if self.changes else 0


def lines_of_run(folder: RunFolder, n: int, rows: Sequence[MetricRow]) -> list[GateLine]:
    """Return a run's lines, those that are open at its end first, then those that closed last.

    Gates that were never open, as in a front's later runs, have none.
    """
    if not rows:
        return []
    decisions, end = folder.read_decisions(), rows[-1].step
    if not decisions and math.isnan(rows[-1].watched):  # only the fast recipe watches
        return lines_by_count(rows, n)
    lines = lines_by_gate(decisions, _open_at_start(folder, decisions, n, rows), n, end)
    return [line for line in lines if line.spans]


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
            elif decision.action == "reopen" and gate not in opened:
                opened[gate] = decision.step
                line.changes.append((decision.step, "opened again"))
    for gate, line in enumerate(lines):
        line.is_open = gate in opened
        if line.is_open:
            line.spans.append((opened[gate], end))
    order = sorted(range(n), key=lambda g: (not lines[g].is_open, -lines[g].last_change() if g not in opened else g))
    return [lines[gate] for gate in order]


def lines_by_count(rows: Sequence[MetricRow], n: int) -> list[GateLine]:
    """Draw line k while at least k gates are open."""
    lines = [GateLine(f"{k} or more", is_open=rows[-1].open >= k) for k in range(1, n + 1)]
    for k, line in enumerate(lines, 1):
        since: int | None = 0
        for row in rows:
            if row.open < k and since is not None:
                line.spans.append((since, row.step))
                line.changes.append((row.step, "closed"))
                since = None
            elif row.open >= k and since is None:
                line.changes.append((row.step, "opened again"))
                since = row.step
        if since is not None:
            line.spans.append((since, rows[-1].step))
    return lines


def _open_at_start(
    folder: RunFolder, decisions: Sequence[DecisionRow], n: int, rows: Sequence[MetricRow]
) -> Iterable[int]:
    """Return the gates that the run began with: all, but in a front only those that the tau before it had left."""
    began_with = decisions[0].open if decisions else rows[0].open
    if began_with == n:
        return range(n)
    first: dict[int, str] = {}
    for decision in decisions:
        for gate in map(int, decision.gates.split()):
            first.setdefault(gate, decision.action)
    measured = {gate for gate, cost in enumerate(folder.read_first_costs()) if cost is not None}
    return {gate for gate in measured if first.get(gate) != "reopen"} | {g for g in first if first[g] == "close"}
