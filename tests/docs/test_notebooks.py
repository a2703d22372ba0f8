"""The notebooks of examples/notebooks: here their cells run with few batches, and `make notebooks` runs them in full.

Jupyter is not needed for this. A cell's last value is shown as a notebook would show it, as HTML.
"""

import ast
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
STEPS = re.compile(r"\b(max_steps|steps)=\d+")
MARK = re.compile(r"^# %%(.*)\n", re.MULTILINE)


def cells(path: Path) -> list[tuple[str, str]]:
    """Return the cells of a percent script as (kind, text), text cells without their comment signs."""
    before, *parts = MARK.split(path.read_text())
    assert before == "", f"{path.name} must begin with a cell"
    pairs = [(mark.strip() or "code", text) for mark, text in zip(parts[::2], parts[1::2], strict=True)]
    return [(kind, re.sub(r"^# ?", "", text, flags=re.MULTILINE) if kind != "code" else text) for kind, text in pairs]


@pytest.mark.filterwarnings("ignore:the promise is not certified")
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_from_top_to_bottom(path, tmp_path, monkeypatch):
    if path.stem == "counts":
        pytest.importorskip("anndata", reason="anndata is not installed")
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, object] = {"__name__": path.stem}
    shown = 0
    for kind, code in cells(path):
        if kind != "code":
            continue
        tree = ast.parse(STEPS.sub(r"\1=30", code), path.name)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            shown += bool(value._repr_html_()) if hasattr(value, "_repr_html_") else 0
        plt.close("all")
    assert shown or path.stem == "own_networks"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_a_page_of_the_site(path):
    """It begins with its title, and docs/notebooks.md links to it and has it in its toctree."""
    kind, text = cells(path)[0]
    assert kind == "[markdown]"
    assert text.startswith("# ")
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert f"(../examples/notebooks/{path.name})" in page
    assert f"\nnotebooks/{path.stem}\n" in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_text_of_a_notebook_links_to_what_exists_and_has_no_results(path):
    """Results are printed by cells: a text cell with a decimal number would be one that nobody checks."""
    text = "\n".join(text for kind, text in cells(path) if kind != "code")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (path.parent / target.replace(".ipynb", ".py")).exists(), target
    assert not re.findall(r"\d\.\d", re.sub(r"`[^`]*`", "", text))


def test_every_page_in_the_toctree_has_a_source():
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert sorted(re.findall(r"^notebooks/(\w+)$", page, re.MULTILINE)) == [path.stem for path in NOTEBOOKS]
