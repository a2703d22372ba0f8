"""Trained models at work: codes, reconstructions, samples and exports, from the command line."""

import csv
import json
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

from narrows import NarrowsError, Pretrained, load_model, read_description
from narrows.cli import main
from narrows.data import load

from .conftest import small
from .test_reproduce import SAMPLES


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The first 120 digits of MNIST, 28 x 28, true pixels."""
    import gzip

    raw = [gzip.decompress((SAMPLES / f"{part}-images-idx3-ubyte.gz").read_bytes()) for part in ("train", "t10k")]
    path = tmp_path_factory.mktemp("digits") / "digits.npy"
    np.save(path, np.concatenate([np.frombuffer(r, np.uint8, offset=16).reshape(-1, 28, 28) for r in raw]))
    return path


@pytest.fixture(scope="module")
def run(digits):
    out = digits.parent / "run"
    assert main(["train", str(digits), "--tau", "40", "--steps", "60", "--out", str(out), *small(recipe="fast")]) == 0
    return out


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table whose columns have units of their own, and a run on two of its columns."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "name", "income"])
        for h, i in zip(rng.normal(1.7, 0.1, 200), rng.normal(40_000, 9_000, 200), strict=True):
            writer.writerow([h, "x", i])
    words = ["--columns", "height,income", "--explained", "0.5", "--steps", "60", *small(recipe="fast", n=2)]
    assert main(["train", str(folder / "t.csv"), "--out", str(folder / "run"), *words]) == 0
    return folder


def test_codes_and_back(run, digits, tmp_path, capsys):
    codes, back, again = tmp_path / "z.npy", tmp_path / "x.npy", tmp_path / "y.npy"
    assert main(["encode", str(run), str(digits), "-o", str(codes)]) == 0
    assert main(["decode", str(run), str(codes), "-o", str(back)]) == 0
    assert main(["reconstruct", str(run), "-o", str(again)]) == 0  # the run knows its data
    out = capsys.readouterr().out
    x = np.load(digits)
    model = load_model(run / "model.safetensors")
    expected = model.encode(torch.from_numpy(x[:, None] / 255).float()).mean.detach().numpy()
    assert np.load(codes).shape == (120, model.n)
    np.testing.assert_allclose(np.load(codes), expected, rtol=1e-4, atol=1e-5)
    assert np.load(back).shape == x.shape
    np.testing.assert_allclose(np.load(back), np.load(again), rtol=1e-4, atol=1e-5)
    error = ((np.load(again) - x / 255) ** 2).sum((1, 2)).mean()
    assert f"decoding the mean: {error:.4g}" in out


def test_the_first_dimension_says_most(run):
    result = json.loads((run / "result.json").read_text())
    costs = [dimension["cost"] for dimension in result["dimensions"]]
    assert costs == sorted(costs, reverse=True)
    assert [dimension["kept"] for dimension in result["dimensions"]] == result["kept"]


def test_samples_depend_on_the_seed_alone(run, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        words = ["--count", "300", "--seed", str(seed), "-o", str(tmp_path / f"{name}.npy")]
        assert main(["sample", str(run / "model.safetensors"), *words]) == 0
    a, b, c = (np.load(tmp_path / f"{name}.npy") for name in "abc")
    assert a.shape == (300, 28, 28)
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_a_table_is_encoded_by_its_columns_names(table, tmp_path):
    """Another table, with its columns in another order, and one more."""
    with (table / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "other.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["income", "age", "height"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "age": 7} for row in rows)
    for source in (table / "t.csv", tmp_path / "other.csv"):
        assert main(["encode", str(table / "run"), str(source), "-o", str(tmp_path / f"{source.stem}.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), np.load(tmp_path / "other.npy"))
    assert main(["reconstruct", str(table / "run"), "-o", str(tmp_path / "back.npy")]) == 0
    back = np.load(tmp_path / "back.npy")
    assert back[:, 1].mean() == pytest.approx(40_000, rel=0.1)
    assert back[:, 0].mean() == pytest.approx(1.7, rel=0.1)


def test_errors_are_those_of_the_promise(table, tmp_path, capsys):
    """In standard deviations for a table, as tau; the reconstruction itself in the table's units and in double."""
    assert main(["reconstruct", str(table / "run"), "-o", str(tmp_path / "back.npy")]) == 0
    text = capsys.readouterr().out
    x = np.loadtxt(table / "t.csv", delimiter=",", skiprows=1, usecols=(0, 2))
    back = np.load(tmp_path / "back.npy")
    assert back.dtype == np.float64
    about = read_description(table / "run" / "model.safetensors")
    error = (((x - back) / about["units"]["unit"]) ** 2).sum(1).mean()
    assert f"standard deviations or ranges: {error:.4g}; tau" in text


def test_tables_with_other_endings_are_tables(table, tmp_path):
    rows = (table / "t.csv").read_text()
    (tmp_path / "t.tsv").write_text(rows.replace(",", "\t"))
    for name in (table / "t.csv", tmp_path / "t.tsv"):
        assert main(["encode", str(table / "run"), str(name), "-o", str(tmp_path / f"{name.suffix[1:]}.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "tsv.npy"), np.load(tmp_path / "csv.npy"))


def test_a_folder_of_images_with_a_broken_one(tmp_path):
    (tmp_path / "photos").mkdir()
    for i, pixels in enumerate(np.random.default_rng(0).integers(0, 255, (20, 24, 20, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.png")
    (tmp_path / "photos" / "bad.png").write_bytes(b"bad")
    words = ["--skip-broken", "--image-size", "16", "--tau", "100", "--steps", "20", *small(recipe="fast", batch=8)]
    assert main(["train", str(tmp_path / "photos"), "--out", str(tmp_path / "run"), *words]) == 0
    assert main(["encode", str(tmp_path / "run"), "-o", str(tmp_path / "z.npy")]) == 0
    assert len(np.load(tmp_path / "z.npy")) == 20
    (tmp_path / "photos" / "bad.png").unlink()
    model = str(tmp_path / "run" / "model.safetensors")  # it knows the size of its images
    assert main(["reconstruct", model, str(tmp_path / "photos"), "-o", str(tmp_path / "x.npy")]) == 0
    assert np.load(tmp_path / "x.npy").shape == (20, 16, 16, 3)


def parts(folder, x, z):
    sessions = [onnxruntime.InferenceSession(folder / f"{part}.onnx") for part in ("encoder", "decoder")]
    mean, log_std = sessions[0].run(None, {"x": x})
    (y,) = sessions[1].run(None, {"z": z})
    return mean, log_std, y


@pytest.mark.parametrize("which", ["digits", "table"])
def test_onnx_gives_the_same_on_real_inputs_in_batches_of_any_size(which, run, table, digits, tmp_path):
    folder, source = (run, digits) if which == "digits" else (table / "run", table / "t.csv")
    assert main(["export", str(folder), "--to", "onnx", "-o", str(tmp_path / "onnx")]) == 0
    columns = None if which == "digits" else ["height", "income"]
    data = load(source, columns=columns)
    x = data.examples.batch(np.arange(100)).float()
    model = load_model(folder / "model.safetensors")
    posterior = model.encode(x)
    for count in (1, 7, 100):
        mean, log_std, y = parts(tmp_path / "onnx", x[:count].numpy(), posterior.mean[:count].detach().numpy())
        np.testing.assert_allclose(mean, posterior.mean[:count].detach(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(log_std, posterior.log_std[:count].detach(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(y, model.decode(posterior.mean[:count]).detach(), atol=1e-5, rtol=1e-5)
    assert json.loads((tmp_path / "onnx" / "about.json").read_text())["provisioned"] in (2, 4)


def test_a_torch_program_and_a_copy(run, tmp_path, capsys):
    assert main(["export", str(run), "--to", "torch", "-o", str(tmp_path / "pt")]) == 0
    assert main(["export", str(run), "--to", "safetensors", "-o", str(tmp_path / "st")]) == 0
    model = load_model(tmp_path / "st" / "model.safetensors")
    z = torch.randn(5, model.n)
    program = torch.export.load(tmp_path / "pt" / "decoder.pt2").module()
    torch.testing.assert_close(program(z), model.decode(z))
    assert str(tmp_path / "pt" / "encoder.pt2") in capsys.readouterr().out


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
    words = "values, in the columns' own standard deviations or ranges); "
    assert f"summed over an input's 2 {words}" in Pretrained.of(table / "run").generate_model_card().content
    assert "standard deviations" not in Pretrained.of(run).generate_model_card().content


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("config.json", b"{", "{folder}/config.json is damaged (Expecting property name"),
        ("config.json", b"\xff\xfe", "{folder}/config.json is damaged ("),
        ("config.json", b"[1]", "{folder}/config.json is damaged ("),
        ("config.json", b"[" * 100_000, "{folder}/config.json is damaged ("),
        ("result.json", b"{", "get it again from where it came, or delete it"),
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


def test_bad_input_gets_one_line(run, table, digits, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    np.save(tmp_path / "codes.npy", np.zeros((3, 99)))
    np.save(tmp_path / "nan.npy", np.full((3, load_model(run / "model.safetensors").n), np.nan))
    np.save(tmp_path / "none.npy", np.zeros((0, load_model(run / "model.safetensors").n)))
    (tmp_path / "noise.npy").write_bytes(b"noise")
    n = load_model(run / "model.safetensors").n
    np.save(tmp_path / "scalar.npy", np.float64(3))
    np.savez(tmp_path / "archive.npz", z=np.zeros((3, n)))
    np.save(tmp_path / "huge.npy", np.where(np.arange(300)[:, None] == 290, 1e300, np.zeros((300, n))))
    np.save(tmp_path / "large.npy", np.full((3, n), 3e38))
    np.save(tmp_path / "wide.npy", np.load(digits).astype(np.float32))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "bad.png").write_bytes(b"bad")
    for words, expected in (
        (
            ["encode", str(run), str(table / "t.csv"), "-o", "z.npy"],
            "holds text, not numbers ('x' in row 1); write the columns of numbers into a file of their own\n",
        ),
        (
            ["reconstruct", str(run), str(tmp_path / "wide.npy"), "-o", "z.npy"],
            "outside [0, 1]; the model was trained on values in [0, 1]; rescale these in the same way\n",
        ),
        (["encode", str(run), str(tmp_path / "broken"), "-o", "z.npy"], "; repair or remove it\n"),
        (["encode", str(table / "run"), str(digits), "-o", "z.npy"], "has examples of 1x28x28; the model"),
        (["encode", str(tmp_path), "-o", "z.npy"], "is no run folder"),
        (["encode", str(run), "-o", "z.txt"], "what is written is a .npy file"),
        (["encode", str(run), "-o", str(tmp_path / "no" / "z.npy")], "there is no folder"),
        (["encode", str(run / "model.safetensors"), "-o", "z.npy"], "does not say where its data are; name the data"),
        (["decode", str(run), str(tmp_path / "codes.npy"), "-o", "x.npy"], "these are float64 (3, 99)"),
        (["decode", str(run), str(tmp_path / "nan.npy"), "-o", "x.npy"], "code 0 is not finite"),
        (["decode", str(run), str(tmp_path / "scalar.npy"), "-o", "x.npy"], "; these are float64 ()\n"),
        (["decode", str(run), str(tmp_path / "archive.npz"), "-o", "x.npy"], "it is an archive (.npz); save one array"),
        (["decode", str(run), str(tmp_path), "-o", "x.npy"], "cannot read the codes"),
        (["decode", str(run), str(tmp_path / "huge.npy"), "-o", "x.npy"], "code 290 is too large for single precision"),
        (
            ["decode", str(run), str(tmp_path / "large.npy"), "-o", "x.npy"],
            "code 0 is too large: what it stands for has",
        ),
        (["decode", str(run), str(tmp_path / "none.npy"), "-o", "x.npy"], "there are no codes to decode"),
        (["decode", str(run), str(tmp_path / "noise.npy"), "-o", "x.npy"], "cannot read the codes"),
        (["sample", str(run), "--count", "0", "-o", "x.npy"], "--count must be at least 1; it is 0"),
        (["sample", str(run), "--seed", "99999999999999999999999", "-o", "x.npy"], "--seed must be between 0 and 2^63"),
        (["encode", str(run), "-o", "/proc/q.npy"], "cannot write /proc/q.npy: "),
        (["sample", str(run), "--count", "2.5", "-o", "x.npy"], "--count must be a whole number; it is 2.5"),
        (["export", str(run), "--to", "onnx", "-o", str(tmp_path / "full")], "nothing is overwritten"),
        (["export", str(run), "--to", "pickle", "-o", "e"], "pickle"),
    ):
        assert main(words) == 2, words
        error = capsys.readouterr().err
        assert error.startswith("narrows: error: "), words
        assert error.count("\n") == 1
        assert expected in error
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [
        "archive.npz", "broken", "codes.npy", "full", "huge.npy", "large.npy", "nan.npy", "noise.npy", "none.npy",
        "scalar.npy", "wide.npy",
    ]  # fmt: skip


def test_without_onnx_the_install_line_is_told(run, tmp_path):
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'onnx' else real(name, *a)\n"
        "from narrows.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, "export", str(run), "--to", "onnx", "-o", str(tmp_path / "e")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert "ONNX files need onnx: pip install 'narrows[onnx]'" in done.stderr
