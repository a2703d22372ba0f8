"""Models in a folder like a repository of the Hugging Face hub: the files, the card, and the way back."""

import shutil

import pytest
import torch

from narrows import NarrowsError, Pretrained


def test_a_model_is_shared_with_a_card_and_comes_back(run, tmp_path):
    shared = Pretrained.of(run)
    shared.save_pretrained(tmp_path / "repo")
    assert {path.name for path in (tmp_path / "repo").iterdir()} == {
        "README.md", "config.json", "curves.png", "model.safetensors", "result.json",
    }  # fmt: skip
    back = Pretrained.from_pretrained(tmp_path / "repo")
    z = torch.randn(3, back.model.n)
    torch.testing.assert_close(back.model.decode(z), shared.model.decode(z), rtol=0, atol=0)
    assert back.result == shared.result
    card = (tmp_path / "repo" / "README.md").read_text()
    held = shared.result.heldout
    for fact in ("library_name: narrows", "`digits`", "at most 40", f"error {held.error:.4g}", "(curves.png)", "| 0 |"):
        assert fact in card, fact


def test_the_card_of_a_table_says_in_what_the_error_counts(table, run):
    unit = "values, in each column's standard deviation or range), and kept"
    assert f"summed over an input's 2 {unit}" in Pretrained.of(table / "run").generate_model_card().content
    assert "standard deviation or range" not in Pretrained.of(run).generate_model_card().content


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("config.json", b"{", "{folder}/config.json is damaged (Expecting property name"),
        ("config.json", b"\xff\xfe", "{folder}/config.json is damaged ("),
        ("config.json", b"[1]", "{folder}/config.json is damaged ("),
        ("config.json", b"[" * 100_000, "{folder}/config.json is damaged ("),
        ("result.json", b"{", "copy it again from its source, or delete it"),
        ("result.json", b"[" * 100_000, "{folder}/result.json is damaged ("),
        ("model.safetensors", b"noise", "cannot read the model {folder}/model.safetensors"),
    ],
)
def test_damaged_files_of_a_shared_model_are_named(run, tmp_path, file, content, expected):
    folder = tmp_path / "repo"
    Pretrained.of(run).save_pretrained(folder)
    (folder / file).write_bytes(content)
    with pytest.raises(NarrowsError) as caught:
        Pretrained.from_pretrained(folder)
    text = str(caught.value)
    assert expected.format(folder=folder) in text
    assert "\n" not in text
    assert "narrows resume" not in text


def test_a_damaged_answer_of_a_run_is_written_again_by_resuming(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text("{")
    with pytest.raises(NarrowsError, match=r"delete it, and `narrows resume .*` writes it again"):
        Pretrained.of(tmp_path / "run")
