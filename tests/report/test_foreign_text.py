"""What others wrote, in names of files and columns and in models, stays text on terminals, on pages and on cards."""

import json
import os
import shutil
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
from markdown_it import MarkdownIt

from commands import run as command, small
from narrows import Pretrained
from narrows.cli import main
from narrows.explorer import page as explorer_page
from narrows.explorer.models import open_explorer
from narrows.model.storage import read_description
from narrows.report.live.follow import Follower
from narrows.report.live.page import page as live_page
from narrows.report.run_page import write_report
from narrows.runs.folder import RunFolder

OWNED = "\x1b]0;owned\x07"
NAME = f"`<img src=x onerror=alert(1)>\n# {OWNED}[red]"
COLUMNS = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', f"{OWNED}\u202etxt", "plain")


class Elements(HTMLParser):
    """The elements and the text of a page, as a parser of HTML sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script":
            self.scripts.append(data)
        self.text += data


def check_page(page: str, scripts: int) -> Elements:
    """Check that a page has no element, no script and no attribute but its own."""
    found = Elements(page)
    assert OWNED not in page
    assert not [one for one in page if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one not in "\n\t"]
    for tag, attributes in found.elements:
        assert tag != "img" or attributes.get("src") is None or attributes["src"].startswith("data:image/png;base64,")
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    plain = [attributes for tag, attributes in found.elements if tag == "script" and "type" not in attributes]
    assert len(plain) == scripts
    for script in found.scripts:
        if script.startswith(("{", "[")):
            json.loads(script)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a table whose file and whose columns have hostile names."""
    folder = tmp_path_factory.mktemp("foreign")
    rows = np.random.default_rng(0).standard_normal((200, 4))
    header = ",".join('"' + name.replace('"', '""') + '"' for name in COLUMNS)
    (folder / f"{NAME}.csv").write_text("\n".join([header, *(",".join(map(repr, row)) for row in rows.tolist())]))
    done = command(
        "train", folder / f"{NAME}.csv", "--explained", "0.5", "--steps", "60", "--out", folder / "run",
        *small(recipe="fast", n=2),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    return folder / "run"


def described(run: Path, out: Path, **changes: object) -> Path:
    """Copy a run, and change the description in its model; None removes an entry."""
    shutil.copytree(run, out)
    path = out / "model.safetensors"
    about = {name: value for name, value in {**read_description(path), **changes}.items() if value is not None}
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, {"narrows": json.dumps(about)})
    return out


def test_the_report(run):
    write_report(RunFolder(run))
    found = check_page((run / "report.html").read_text(), scripts=1)
    for shown in (*COLUMNS[:2], "\\x1b]0;owned\\x07\\u202etxt", "<img src=x onerror=alert(1)>\\n# \\x1b]0;owned"):
        assert shown in found.text


def test_the_page_of_a_run_that_trains(run):
    follower = Follower(run)
    snapshot = follower.look()
    check_page(live_page(snapshot, snapshot.run, live=True).html(), scripts=2)


def test_the_explorers_page(run):
    explorer = open_explorer(run)
    found = check_page(explorer_page.html(explorer), scripts=1)
    assert COLUMNS[0] in found.text
    assert "\x1b" not in explorer.name


def test_a_page_holds_what_utf8_cannot(run, tmp_path):
    """JSON may hold half of a character; a page must still be written."""
    out = described(run, tmp_path / "run", columns=["\ud800", *COLUMNS[1:]], fingerprint=None)
    write_report(RunFolder(out))
    check_page((out / "report.html").read_text(), scripts=1)
    explorer_page.html(open_explorer(out)).encode()


@pytest.mark.parametrize(
    "name", ["`# owned`", NAME, "``\n# owned\n[x](http://e.com)<script>alert(1)</script>", "\u2028# x"]
)
def test_the_model_card(run, tmp_path, name):
    out = described(run, tmp_path / "run", data=name)
    card = Pretrained.of(out).generate_model_card().content.split("---\n", 2)[2]
    tokens = MarkdownIt("commonmark", {"html": True}).parse(card)
    inside = [one for token in tokens for one in token.children or ()]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"]
    assert {"html_inline", "html_block", "link_open"}.isdisjoint(one.type for one in (*tokens, *inside))
    assert [one.content for one in inside if one.type == "image"] == [
        "Error, gates, multiplier and tolerance hits during training"
    ]
    assert "".join(one.content for one in inside if one.type == "code_inline").isprintable()
    assert "\x1b" not in card


def test_a_figure_that_is_a_link_is_not_published(run, tmp_path):
    out, secret = described(run, tmp_path / "run"), tmp_path / "secret.png"
    secret.write_bytes(b"private")
    (out / "curves.png").unlink()
    (out / "curves.png").symlink_to(secret)
    with pytest.raises(ValueError, match=r"is a symlink to .*secret.png, which would be copied; remove the link"):
        Pretrained.of(out).save_pretrained(tmp_path / "repo")
    assert not (tmp_path / "repo" / "curves.png").exists()


def test_bars_while_data_are_read_take_any_name(tmp_path, capsys):
    from narrows.report.live.listeners import LoadingBars, LoadingLines

    for shown in (LoadingBars(), LoadingLines()):
        shown.loading(f"reading [/red]{OWNED}.csv", 1, 2)
        shown.loaded()
        assert "[/red]\\x1b]0;owned\\x07.csv" in "".join(capsys.readouterr().out.split("\n"))


@pytest.mark.parametrize("kind", ["npz", "h5"])
def test_keys_in_errors(tmp_path, kind, capsys):
    array, path = np.zeros((9, 3)), tmp_path / f"a.{kind}"
    if kind == "npz":
        np.savez(path, **{f"a{OWNED}": array, "b\nnarrows: all is well": array})
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file[f"a{OWNED}"] = file["b\nnarrows: all is well"] = array
    assert main(["train", str(path), "--tau", "1"]) == 2
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert error.count("\n") == 1
    assert "a\\x1b]0;owned\\x07" in error


@pytest.mark.skipif(os.name != "posix", reason="only here are names of files bytes")
def test_paths_that_are_not_utf8(tmp_path):
    """Train, show, watch, report, compare, explore, encode and export, in a folder and on a file with such names."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    folder.mkdir()
    data, out = os.fsdecode(b"\xff.npy"), os.fsdecode(b"run\xff")
    with (folder / data).open("wb") as file:
        np.save(file, (np.random.default_rng(0).random((200, 16, 16)) * 255).astype(np.uint8))
    words = ["--tau", "20", "--steps", "30", *small(recipe="fast")]
    for arguments in (
        ["train", data, *words],
        ["train", data, "--out", out, *words],
        ["show", out],
        ["watch", out],
        ["resume", out],
        ["report", out],
        ["report", out, "runs/\\udcff-1", "-o", os.fsdecode(b"c\xff.html")],
        ["encode", out, "-o", os.fsdecode(b"z\xff.npy")],
        ["export", out, "--to", "safetensors", "-o", os.fsdecode(b"e\xff")],
    ):
        done = command(*arguments, cwd=folder, errors="surrogateescape")
        assert (done.returncode, done.stderr) == (0, ""), (arguments, done.stderr)
    for page in (
        folder / out / "report.html",
        folder / os.fsdecode(b"c\xff.html"),
        folder / "runs/\\udcff-1/report.html",
    ):
        assert "data:image/png" in page.read_text(encoding="utf-8")
    explorer_page.html(open_explorer(folder / out)).encode()
