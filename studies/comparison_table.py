"""The rows of studies/comparison.py as the tables of docs/comparison.md.

python studies/comparison_table.py            prints one table per set, as Markdown

A cell with more than one seed has the range. `upper end / tau` is at most 1 where tau is kept.
"""

from common import RESULTS, Row, Table
from comparison import SETS
from methods import METHODS

COLUMNS = ("dims", "upper / tau", "kept", "batches", "CPU s", "Fréchet", "1-NN")


def span(values: list[str], digits: int = 3) -> str:
    """Return the range of some numbers; nothing where one is missing."""
    if not all(values):
        return ""
    numbers = sorted(float(value) for value in values)
    low, high = (f"{x:,.0f}" if x >= 100 or x == int(x) else f"{x:.{digits}g}" for x in (numbers[0], numbers[-1]))
    return low if low == high else f"{low} to {high}"


def line(name: str, setting: str, rows: list[Row]) -> str:
    """Return one line of a table, for the seeds of one method and setting."""
    label = f"{name}, {setting}" if setting == "search" else name
    shares = [str(float(row["upper"]) / float(row["tau"])) for row in rows]
    cells = [
        span([row["dims"] for row in rows]),
        span(shares),
        f"{sum(row['kept'] == 'True' for row in rows)} of {len(rows)}",
        *(span([row[column] for row in rows]) for column in ("batches", "seconds", "frechet", "nearest")),
    ]
    return f"| {label} | {' | '.join(cells)} |"


def main() -> None:
    """Print what there is."""
    rows, bounds = Table("comparison", RESULTS).rows, Table("comparison_bounds", RESULTS).rows
    for name in SETS:
        here = [row for row in rows if row["set"] == name]
        if not here:
            print(f"{name}: no results yet\n")
            continue
        of_set = [row for row in bounds if row["set"] == name]
        n, seeds = of_set[0]["n"], ", ".join(row["seed"] for row in of_set)
        print(f"{name}: n = {n}, seeds {seeds}; of the widest VAE:\n")
        for column in ("validation_error", "tau", "target", "batches"):
            print(f"- {column}: {span([row[column] for row in of_set])}")
        print()
        print(f"| method | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
        settings = {(row["method"], row["setting"]) for row in here}
        for method in METHODS:
            for setting in sorted(setting for of, setting in settings if of == method):
                print(line(method, setting, [r for r in here if (r["method"], r["setting"]) == (method, setting)]))
        print()


if __name__ == "__main__":
    main()
