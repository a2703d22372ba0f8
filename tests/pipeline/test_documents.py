"""Whatever is shown runs: the README's Python, the examples, and the files the documents point at."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from narrows.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code, expected in zip(blocks(ROOT / "README.md", "python"), ("of the variance", "error"), strict=True):
        exec(compile(code, "README.md", "exec"), {})
        assert f"dimensions, {expected}" in re.sub(r"[\d.]+ of", "of", capsys.readouterr().out)


def test_the_readmes_commands_exist(capsys):
    """Every `narrows` command and `make` target that the README shows is one that there is."""
    text = (ROOT / "README.md").read_text()
    commands = set(re.findall(r"narrows (train|resume|show|\w+) (?:RUN|my|runs|--)", text))
    assert commands >= {"train", "front", "resume", "show"}
    for command in commands:
        assert main([command, "--help"]) == 0
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make (\w+)  ", text)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_and_pictures_are_there(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_names_in_the_line_by_line_table_exist():
    """docs/algorithm.md names code; a renamed function must not leave it behind."""
    import narrows.algorithm
    import narrows.constraint
    import narrows.data
    import narrows.gates
    import narrows.model
    import narrows.objective
    import narrows.training.loop

    homes = (
        narrows.algorithm, narrows.constraint, narrows.data, narrows.gates,
        narrows.model, narrows, narrows.training.loop,
    )  # fmt: skip
    table = (ROOT / "docs" / "algorithm.md").read_text().split("## Algorithm 1")[1].split("## Decisions")[0]
    for name in re.findall(r"`([\w.]+)`", table):
        first, *rest = name.split(".")
        if first == "objective":
            assert hasattr(narrows.objective, rest[0]), name
            continue
        owner = next((getattr(home, first) for home in homes if hasattr(home, first)), None)
        assert owner is not None, name
        if rest and name != "Narrowing.hit":  # made in __init__
            assert hasattr(owner, rest[0]), name


def test_the_own_loop_example_finds_the_plane():
    spec = importlib.util.spec_from_file_location("own_loop", ROOT / "examples" / "own_loop.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_loop"] = module
    spec.loader.exec_module(module)
    assert len(module.main()) == 2
