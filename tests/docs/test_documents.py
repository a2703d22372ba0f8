"""Whatever is shown runs: the documents' Python and commands, the examples, and what the documents point at."""

import importlib
import importlib.util
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from cyclopts import MissingArgumentError

import narrows
from narrows.cli import main
from narrows.cli.app import app
from narrows.runs import RunFolder
from narrows.training.config import TrainConfig

from .conftest import small

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(path: Path, *languages: str) -> list[tuple[str, str]]:
    """The fenced blocks in these languages, in order: (language, text)."""
    return [(language, text) for language, text in BLOCK.findall(path.read_text()) if language in languages]


def prose(path: Path) -> str:
    """A document without its fenced blocks."""
    return BLOCK.sub("", path.read_text())


def spans(path: Path) -> list[str]:
    """What stands between single backticks, on one line or broken over two."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(path))]


def command_lines(path: Path) -> list[tuple[list[str], bool]]:
    """Every `narrows` command that is shown, as words, and whether it is shown whole: in a block, not in a sentence."""
    lines = [(line, True) for _, text in blocks(path, "console") for line in text.splitlines()]
    for span in spans(path):
        first, *others = span.split(" | ")  # `narrows reproduce training | front` are two
        lines += [(line, False) for line in (first, *(f"{first.rpartition(' ')[0]} {other}" for other in others))]
    words = [(shlex.split(line, comments=True), whole) for line, whole in lines if re.search(r"\bnarrows [\w-]", line)]
    return [(each[each.index("narrows") + 1 :], whole) for each, whole in words]


def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for (_, code), expected in zip(blocks(ROOT / "README.md", "python"), ("of the variance", "error"), strict=True):
        exec(compile(code, "README.md", "exec"), {})
        assert f"dimensions, {expected}" in re.sub(r"[\d.]+ of", "of", capsys.readouterr().out)


PAGES = [path for path in DOCUMENTS if path.parent != ROOT and path.name != "your-data.md" and blocks(path, "python")]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_a_pages_python_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    for _, code in blocks(path, "python"):
        exec(compile(code, path.name, "exec"), names)


def test_the_session_on_your_data_runs(tmp_path, monkeypatch):
    """docs/your-data.md from top to bottom, Python and commands in turn; only `train` and `front` are cut short."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, text in blocks(ROOT / "docs" / "your-data.md", "python", "console"):
        if language == "python":
            exec(compile(text, "your-data.md", "exec"), names)
            continue
        for line in text.splitlines():
            _, *words = shlex.split(line, comments=True)
            short = words[0] in ("train", "front") and "--config" not in words
            assert main([*words, *([*small(recipe="fast"), "--steps=60"] if short else [])]) == 0, line
    decoded, again = np.load("decoded.npy"), np.load("again.npy")
    assert decoded.shape == (2000, 20)
    np.testing.assert_allclose(decoded, again, atol=1e-6)
    assert len(np.load("new.npy")) == 16
    assert names["codes"].shape == np.load("codes.npy").shape
    assert RunFolder("runs/my-2").read_config()["seed"] == 1


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_the_commands_that_are_shown_exist(path):
    """Every `narrows` line goes through the real parser; every `make` target and script is one that there is."""
    for command in ("train", "front"):
        app[command].config = ()  # `main` forgets the file behind the last --config only when it is called again
    for words, whole in command_lines(path):
        try:
            _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        except MissingArgumentError:
            if whole or any(word.startswith("-") for word in words):  # `narrows encode`, in a sentence, is only a name
                raise
        else:
            bound.arguments.get("settings", TrainConfig()).checked()
    text = path.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for script in re.findall(r"(?:^|`)python\s+(\S+\.py)", text, re.MULTILINE):
        assert (ROOT / script).exists(), script


def test_the_options_that_sentences_name_exist(capsys):
    commands = "train front resume show watch reproduce encode sample evaluate explore export"
    for command in (*commands.split(), "data get"):
        assert main([*command.split(), "--help"]) == 0
    known = set(re.findall(r"--[a-z][\w-]*", capsys.readouterr().out))
    for path in DOCUMENTS:
        for span in spans(path):
            for option in re.findall(r"^--[a-z][\w-]*", span):
                assert option in known, f"{path.name}: {span}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_and_pictures_are_there(path):
    for target in re.findall(r"\]\(([^)]+)\)", prose(path)):
        if "://" in target:
            continue
        name, _, section = target.partition("#")
        page = path.parent / name if name else path
        assert page.exists(), target
        if section:
            headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
            assert section in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings], target


def test_the_site_has_every_page():
    """Each page is in one toctree of docs/index.md, so that `make docs` neither loses nor repeats one."""
    trees = blocks(ROOT / "docs" / "index.md", "{toctree}")
    listed = [line for _, text in trees for line in text.splitlines() if line and not line.startswith(":")]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index")


def test_the_api_page_has_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text()
    names = re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert {name for name in names if name.count(".") == 1} == {f"narrows.{name}" for name in narrows.__all__}
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


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
