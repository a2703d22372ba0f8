"""Everything the documents show works: their Python runs, their commands parse, what they name and link to exists."""

import contextlib
import importlib
import importlib.util
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from cyclopts import MissingArgumentError
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import narrows
from commands import small
from narrows.cli import main
from narrows.cli.app import app
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FOLDERS = ("src", "tests", "docs", "studies", "benchmarks", "examples")


def blocks(path: Path, *languages: str) -> list[tuple[str, str]]:
    """Return the fenced blocks in these languages, in order, as (language, text)."""
    return [(language, text) for language, text in BLOCK.findall(path.read_text()) if language in languages]


def prose(path: Path) -> str:
    """Return a document without its fenced blocks."""
    return BLOCK.sub("", path.read_text())


def spans(path: Path) -> list[str]:
    """Return the texts between single backticks, whether on one line or broken over two."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(path))]


def command_lines(path: Path) -> list[tuple[list[str], bool]]:
    """Return every `narrows` command as a list of arguments, and whether it is complete: in a block, not a sentence."""
    lines = [(line, True) for _, text in blocks(path, "console") for line in text.splitlines()]
    for span in spans(path):
        first, *others = span.split(" | ")  # `narrows reproduce training | front` are two
        lines += [(line, False) for line in (first, *(f"{first.rpartition(' ')[0]} {other}" for other in others))]
    words = [(shlex.split(line, comments=True), whole) for line, whole in lines if re.search(r"\bnarrows [\w-]", line)]
    return [(each[each.index("narrows") + 1 :], whole) for each, whole in words]


def test_readme_python_runs_and_prints_what_the_readme_says(tmp_path, monkeypatch, capsys):
    """Numbers depend a little on the machine, so the comparison leaves them out; that PCA needs 13 must stay true."""
    monkeypatch.chdir(tmp_path)
    printed = []
    for language, text in blocks(ROOT / "README.md", "python", ""):
        if language == "python":
            exec(compile(text, "README.md", "exec"), {})
            printed.append(capsys.readouterr().out)
        else:
            assert re.sub(r"[\d.]+", "#", printed[-1]) == re.sub(r"[\d.]+", "#", text)
    first, second = printed
    assert int(first.split()[0]) < PCA(0.8).fit(load_digits().data).n_components_ == 13
    assert "dimensions, error" in second


PAGES = [path for path in DOCUMENTS if path.parent != ROOT and path.name != "your-data.md" and blocks(path, "python")]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_python_of_a_page_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    for _, code in blocks(path, "python"):
        exec(compile(code, path.name, "exec"), names)


def test_session_of_your_data_runs(tmp_path, monkeypatch):
    """Run docs/your-data.md from top to bottom, Python and commands in turn; only `train` and `front` are shortened."""
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
def test_commands_exist(path, monkeypatch):
    """Pass every `narrows` line through the real parser; look up every `make` target and every script."""
    monkeypatch.setattr(app, "config", ())  # the files that documents give to --config need not exist
    for words, whole in command_lines(path):
        try:
            _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        except MissingArgumentError:
            if whole or any(word.startswith("-") for word in words):  # in a sentence, `narrows encode` is just a name
                raise
        else:
            bound.arguments.get("settings", TrainConfig()).checked()
    text = path.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for script in re.findall(r"(?:^|`)python\s+(\S+\.py)", text, re.MULTILINE):
        assert (ROOT / script).exists(), script


def test_options_named_in_sentences_exist(capsys):
    commands = "train front sweep resume show watch reproduce encode sample evaluate explore export"
    for command in (*commands.split(), "data get"):
        assert main([*command.split(), "--help"]) == 0
    known = set(re.findall(r"--[a-z][\w-]*", capsys.readouterr().out))
    for path in DOCUMENTS:
        for span in spans(path):
            for option in re.findall(r"^--[a-z][\w-]*", span):
                assert option in known, f"{path.name}: {span}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_and_pictures_exist(path):
    for target in re.findall(r"\]\(([^)]+)\)", prose(path)):
        if "://" in target:
            continue
        name, _, section = target.partition("#")
        page = path.parent / name if name else path
        assert page.exists(), target
        if section:
            headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
            assert section in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings], target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_files_named_in_a_document_exist(path):
    """A path must exist in the repository; a bare file name such as `images.py` must be that of some source file."""
    for name in re.findall(r"(?<![\w./-])(?:[\w.-]+/)*[\w.-]+\.py\b", path.read_text()):
        base = path.parent if name.startswith("..") else ROOT
        assert (base / name).exists() if "/" in name else source_file(name), f"{path.name} names {name}"
    for span in spans(path):
        if re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./-]*", span):
            assert (ROOT / span).exists(), f"{path.name} names {span}"


def source_file(name: str) -> bool:
    """Return whether a source file has this name."""
    return any(next((ROOT / folder).rglob(name), None) for folder in FOLDERS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_modules_and_names_in_a_document_exist(path):
    """Every dotted name that begins with `narrows.` must resolve: a module, or an attribute of one."""
    for name in sorted(set(re.findall(r"(?<![\w./@-])narrows(?:\.[A-Za-z_]\w*)+", path.read_text()))):
        assert resolves(name), f"{path.name} names {name}"


def test_new_names_in_the_changelog_exist():
    """The right column of the tables of renames must name what exists, in the changes that are not yet released."""
    unreleased = (ROOT / "CHANGELOG.md").read_text().split("\n## [")[1]
    rows = re.findall(r"^\| .* \| (.*) \|$", unreleased, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(narrows(?:\.\w+)+)`", row)]
    assert names
    assert [name for name in names if not resolves(name)] == []


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of the longest module that it begins with."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found: object = importlib.import_module(".".join(parts[:count]))
            return all(hasattr(found, part) and (found := getattr(found, part)) is not None for part in parts[count:])
    return False


def test_names_of_files_and_modules_that_are_gone_are_noticed():
    assert resolves("narrows.recipes.registry")
    assert resolves("narrows.NarrowVAE.fit")
    assert not resolves("narrows.algorithm")
    assert not resolves("narrows.recipes.registry.NOTHING")
    assert source_file("test_documents.py")
    assert not source_file("algorithm_of_the_paper.py")


def test_site_has_every_page():
    """Each page is in exactly one toctree of docs/index.md, so `make docs` neither loses nor repeats a page."""
    trees = blocks(ROOT / "docs" / "index.md", "{toctree}")
    listed = [line for _, text in trees for line in text.splitlines() if line and not line.startswith(":")]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index")


def test_api_page_has_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text()
    names = re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert {name for name in names if name.count(".") == 1} == {f"narrows.{name}" for name in narrows.__all__}
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_names_in_the_table_of_the_algorithm_exist():
    """docs/algorithm.md names the code of every line; it must follow when a function is renamed."""
    import narrows.constraint
    import narrows.data
    import narrows.gates.l0
    import narrows.model.vae
    import narrows.objective
    import narrows.recipes.paper
    import narrows.training.trainer

    homes = (
        narrows.recipes.paper, narrows.constraint, narrows.data, narrows.gates.l0,
        narrows.model.vae, narrows, narrows.training.trainer,
    )  # fmt: skip
    table = (ROOT / "docs" / "algorithm.md").read_text().split("## Algorithm 1")[1].split("## Decisions")[0]
    for name in re.findall(r"`([\w.]+)`", table):
        first, *rest = name.split(".")
        if first == "objective":
            assert hasattr(narrows.objective, rest[0]), name
            continue
        owner = next((getattr(home, first) for home in homes if hasattr(home, first)), None)
        assert owner is not None, name
        if rest and name != "Algorithm1.hit":  # an attribute of the object, set in __init__
            assert hasattr(owner, rest[0]), name


def test_own_loop_example_finds_the_plane():
    spec = importlib.util.spec_from_file_location("own_loop", ROOT / "examples" / "own_loop.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_loop"] = module
    spec.loader.exec_module(module)
    assert len(module.main()) == 2
