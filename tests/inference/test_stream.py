"""Codes, reconstructions and samples of a trained model, from the command line."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

from commands import small
from narrows import load_model, read_description
from narrows.cli import main


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
    assert f"decoding the mean: {error:.4g} (tau 40)" in out


def test_the_first_dimension_costs_most(run):
    result = json.loads((run / "result.json").read_text())
    costs = [dimension["cost"] for dimension in result["dimensions"]]
    assert costs == sorted(costs, reverse=True)
    assert [dimension["kept"] for dimension in result["dimensions"]] == result["kept"]


def test_samples_depend_on_the_seed_alone(run, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = ["--count", "300", "--seed", str(seed), "-o", str(tmp_path / f"{name}.npy")]
        assert main(["sample", str(run / "model.safetensors"), *settings]) == 0
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
    assert f"standard deviation or range: {error:.4g} (tau " in text


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
    settings = ["--skip-broken", "--image-size", "16", "--tau", "100", "--steps", "20", *small(recipe="fast", batch=8)]
    assert main(["train", str(tmp_path / "photos"), "--out", str(tmp_path / "run"), *settings]) == 0
    assert main(["encode", str(tmp_path / "run"), "-o", str(tmp_path / "z.npy")]) == 0
    assert len(np.load(tmp_path / "z.npy")) == 20
    (tmp_path / "photos" / "bad.png").unlink()
    model = str(tmp_path / "run" / "model.safetensors")  # it knows the size of its images
    assert main(["reconstruct", model, str(tmp_path / "photos"), "-o", str(tmp_path / "x.npy")]) == 0
    assert np.load(tmp_path / "x.npy").shape == (20, 16, 16, 3)


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
    for arguments, expected in (
        (
            ["encode", str(run), str(table / "t.csv"), "-o", "z.npy"],
            "holds text, not numbers ('x' in row 1); write the columns of numbers to another file\n",
        ),
        (
            ["reconstruct", str(run), str(tmp_path / "wide.npy"), "-o", "z.npy"],
            "outside [0, 1]; the model was trained on values in [0, 1]; rescale these in the same way\n",
        ),
        (["encode", str(run), str(tmp_path / "broken"), "-o", "z.npy"], "; repair or remove it\n"),
        (["encode", str(table / "run"), str(digits), "-o", "z.npy"], "has examples of 1x28x28; the model"),
        (["encode", str(tmp_path), "-o", "z.npy"], "is not a run folder"),
        (["encode", str(run), "-o", "z.txt"], "the output is a .npy file; give it that suffix"),
        (["encode", str(run), "-o", str(tmp_path / "no" / "z.npy")], "does not exist; create it first"),
        (["encode", str(run / "model.safetensors"), "-o", "z.npy"], "does not say where its data are; name the data"),
        (["decode", str(run), str(tmp_path / "codes.npy"), "-o", "x.npy"], "these are float64 (3, 99)"),
        (["decode", str(run), str(tmp_path / "nan.npy"), "-o", "x.npy"], "code 0 is not finite"),
        (["decode", str(run), str(tmp_path / "scalar.npy"), "-o", "x.npy"], "; these are float64 ()\n"),
        (["decode", str(run), str(tmp_path / "archive.npz"), "-o", "x.npy"], "is an archive (.npz); save one array"),
        (["decode", str(run), str(tmp_path), "-o", "x.npy"], "cannot be read (Is a directory); check the path"),
        (["decode", str(run), str(tmp_path / "huge.npy"), "-o", "x.npy"], "code 290 is too large for single precision"),
        (
            ["decode", str(run), str(tmp_path / "large.npy"), "-o", "x.npy"],
            "code 0 is too large: its decoded values overflow",
        ),
        (["decode", str(run), str(tmp_path / "none.npy"), "-o", "x.npy"], "has 0 rows; it needs at least one"),
        (["decode", str(run), str(tmp_path / "noise.npy"), "-o", "x.npy"], "is damaged or not a .npy file"),
        (["sample", str(run), "--count", "0", "-o", "x.npy"], "--count must be at least 1; it is 0"),
        (
            ["sample", str(run), "--seed", "99999999999999999999999", "-o", "x.npy"],
            "--seed must be a whole number between 0 and 2^63",
        ),
        (["encode", str(run), "-o", "/proc/q.npy"], "cannot write /proc/q.npy: "),
        (["sample", str(run), "--count", "2.5", "-o", "x.npy"], "--count must be a whole number; it is 2.5"),
        (["export", str(run), "--to", "onnx", "-o", str(tmp_path / "full")], "exists and is not an empty folder"),
        (["export", str(run), "--to", "pickle", "-o", "e"], "pickle"),
    ):
        assert main(arguments) == 2, arguments
        error = capsys.readouterr().err
        assert error.startswith("narrows: error: "), arguments
        assert error.count("\n") == 1
        assert expected in error
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [
        "archive.npz", "broken", "codes.npy", "full", "huge.npy", "large.npy", "nan.npy", "noise.npy", "none.npy",
        "scalar.npy", "wide.npy",
    ]  # fmt: skip
