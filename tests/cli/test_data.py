"""Everybody's own data, from the command line to the saved model; and every kind of bad data with one clear line."""

import json

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from narrows._util.errors import NarrowsError
from narrows.cli import main
from narrows.model.storage import load_model, read_description
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig
from narrows.training.start import train

QUICK = (
    "--recipe",
    "paper",
    "--n",
    "3",
    "--width",
    "2",
    "--batch",
    "16",
    "--steps",
    "30",
    "--device",
    "cpu",
    "--log-every",
    "10",
)
RANDOM = np.random.default_rng(0)


def run(*arguments):
    return main(["train", *map(str, arguments), *QUICK])


@pytest.fixture
def table(tmp_path):
    """Three columns of one factor in very different units, and a constant one."""
    factor = RANDOM.normal(size=(300, 1))
    values = factor * [1.0, 2e6, 3e-4] + [0.0, 1.7e9, 5.0] + RANDOM.normal(size=(300, 3)) * [0.1, 2e5, 3e-5]
    lines = [f"{a},{b},{c},7" for a, b, c in values.tolist()]
    path = tmp_path / "units.csv"
    path.write_text("\n".join(["length,time,mass,gravity", *lines]))
    return path, values


def test_a_tables_units_go_in_and_come_out(table, tmp_path, capsys):
    path, values = table
    out = tmp_path / "run"
    options = ["--tau", "0.5", "--n", "3", "--width", "8", "--steps", "1500", "--device", "cpu", "--out", str(out)]
    assert main(["train", str(path), *options]) == 0
    assert "each column is divided by its own standard deviation; tau counts in those units" in capsys.readouterr().out
    folder = RunFolder(out)
    result = json.loads(folder.result.read_text())
    assert result["heldout"]["error"] < 0.5  # of 3, the number of columns that vary

    about = read_description(folder.model)
    assert about["columns"] == ["length", "time", "mass", "gravity"]
    model = load_model(folder.model)
    rows = torch.from_numpy(np.column_stack([values, np.full(300, 7.0)]))
    with torch.no_grad():
        back = model.reconstruct(rows)
    assert back.dtype == torch.float64
    units = torch.tensor(about["units"]["unit"], dtype=torch.float64)
    torch.testing.assert_close(units[:3], rows.std(0)[:3], rtol=0.1, atol=0)
    error = ((rows - back) / units).square().sum(1).mean()
    assert error < 0.5  # the saved model, fed with the table's own numbers, keeps the promise in the same measure


@pytest.mark.parametrize("scaling", ["minmax", "none"])
def test_other_scalings(table, tmp_path, scaling):
    path, _ = table
    out = tmp_path / "run"
    assert run(path, "--tau", 0.05, "--scaling", scaling, "--columns", "mass,length", "--out", out) == 0
    about = read_description(RunFolder(out).model)
    assert about["columns"] == ["mass", "length"]
    assert ("units" in about) == (scaling == "minmax")


def test_a_run_on_a_table_is_resumed_with_its_columns(table, tmp_path):
    path, _ = table
    out = tmp_path / "run"
    assert run(path, "--tau", 0.5, "--columns", "mass,length", "--out", out) == 0
    assert main(["resume", str(out), "--steps", "40"]) == 0
    assert json.loads(RunFolder(out).result.read_text())["steps"] == 40


def test_changed_data_and_changed_names_are_found_out(table, tmp_path, capsys):
    path, values = table
    array = tmp_path / "a.npy"
    np.save(array, values.astype(np.float32))
    assert run(array, "--values", "any", "--tau", 1e15, "--out", tmp_path / "a") == 0
    changed = values.astype(np.float32)
    changed[7] += 1e6
    np.save(array, changed)
    assert main(["resume", str(tmp_path / "a"), "--steps", "40"]) == 2
    assert "are not those this run was started with" in capsys.readouterr().err

    assert run(path, "--tau", 0.5, "--out", tmp_path / "b") == 0
    path.write_text(path.read_text().replace("length,time", "time,length"))
    assert main(["resume", str(tmp_path / "b"), "--steps", "40"]) == 2
    assert "are not those this run was started with" in capsys.readouterr().err


@pytest.mark.parametrize(
    "setting", [{"columns": "a"}, {"image_size": "64"}, {"skip_broken": True}, {"source": "drawn"}]
)
def test_settings_for_files_are_refused_with_data_in_memory(tmp_path, setting):
    config = TrainConfig(tau=1.0, n=2, width=2, batch=16, steps=2, **setting)
    with pytest.raises(NarrowsError, match=f"{next(iter(setting))} is for data that narrows reads itself"):
        train(config, tmp_path / "run", data=np.zeros((60, 3)))
    assert not (tmp_path / "run").exists()


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """Forty pictures of 24 x 40 pixels, PNG, JPEG and WebP, in two folders."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    for i in range(40):
        pixels = RANDOM.integers(0, 256, (24, 40, 3), dtype=np.uint8)
        ending = ("png", "jpg", "webp")[i % 3]
        Image.fromarray(pixels).save(folder / ("more" if i % 2 else ".") / f"{i}.{ending}")
    return folder


def test_a_folder_of_pictures(pictures, tmp_path):
    out = tmp_path / "run"
    assert run(pictures, "--tau", 200, "--out", out) == 0
    model = load_model(RunFolder(out).model)
    assert model.network.kind == "conv"
    assert model.reconstruct(torch.rand(2, 3, 24, 40)).shape == (2, 3, 24, 40)
    assert run(pictures, "--tau", 200, "--image-size", "32", "--out", tmp_path / "square") == 0
    assert load_model(RunFolder(tmp_path / "square").model).network.shape == (3, 32, 32)


def test_python_takes_a_torch_dataset(tmp_path):
    class Noise(torch.utils.data.Dataset):
        def __len__(self):
            return 60

        def __getitem__(self, i):
            if i >= 60:
                raise IndexError
            return torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(i)), i % 10

    outcome = train(TrainConfig(tau=30.0, n=3, width=2, batch=16, steps=20), tmp_path / "run", data=Noise())
    result, folder = outcome.result, outcome.folder
    assert result.values == 256
    assert load_model(folder.model).network.shape == (1, 16, 16)


def test_a_run_that_came_without_its_data_says_where_they_are_named(capsys, tmp_path):
    x, out = tmp_path / "x.npy", tmp_path / "run"
    np.save(x, np.random.default_rng(0).random((300, 6), dtype=np.float32))
    assert run(x, "--tau", 0.4, "--out", out) == 0
    folder = RunFolder(out)
    moved = x.rename(tmp_path / "moved.npy")
    capsys.readouterr()
    said = f'{folder.config} names data that are not on this machine: {x}; write where they are now as its "data", or '
    for words in ["evaluate", out], ["encode", out, "-o", tmp_path / "z.npy"], ["report", out]:
        assert main([str(word) for word in words]) == (0 if words[0] == "report" else 2)
        error = capsys.readouterr().err
        assert f"{said}give the data where a command takes them, such as `narrows encode RUN DATA`" in error
        assert error.count("\n") == 1
    folder.result.unlink()
    assert main(["resume", str(out)]) == 2
    assert f"{said}continue in Python with `narrows.resume({str(out)!r}, data=...)`" in capsys.readouterr().err
    folder.config.write_text(folder.config.read_text().replace(str(x), str(moved)))
    assert main(["resume", str(out)]) == 0
    assert folder.read_result() is not None


def refused(capsys, tmp_path, *arguments):
    """Return the one line of the refusal; nothing was written."""
    assert run(*arguments, "--tau", 20, "--out", tmp_path / "run") == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("narrows: error: ")
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.out + shown.err
    assert not (tmp_path / "run").exists()
    return shown.err


def test_broken_pictures(pictures, capsys, tmp_path):
    (pictures / "7.png").write_bytes(b"not a picture")
    assert "7.png" in (line := refused(capsys, tmp_path, pictures))
    assert "--skip-broken" in line
    assert run(pictures, "--tau", 200, "--skip-broken", "--out", tmp_path / "run") == 0
    assert "7.png" in capsys.readouterr().out


def test_pictures_of_different_sizes(pictures, capsys, tmp_path):
    Image.new("RGB", (50, 50)).save(pictures / "odd.png")
    line = refused(capsys, tmp_path, pictures)
    assert "odd.png" in line
    assert "--image-size" in line


def test_an_empty_folder(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "png" in refused(capsys, tmp_path, tmp_path / "empty")


def test_tables_with_text_or_holes(capsys, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("height,name\n1.5,Ann\n1.7,Bob\n")
    assert "'name'" in (line := refused(capsys, tmp_path, path))
    assert "--columns" in line
    path.write_text("height,weight\n1.5,\n1.7,70\n")
    assert "'weight'" in refused(capsys, tmp_path, path)


def test_an_h5_without_the_key(capsys, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = np.zeros((9, 16, 16), np.uint8)
    line = refused(capsys, tmp_path, f"{tmp_path / 'a.h5'}::image")
    assert "'image'" in line
    assert "images" in line.replace("'image'", "")


def test_an_array_of_the_wrong_rank(capsys, tmp_path):
    np.save(tmp_path / "flat.npy", np.zeros(9))
    assert "rank 1; reshape it to (N, D)" in refused(capsys, tmp_path, tmp_path / "flat.npy")


def test_a_name_that_does_not_exist(capsys, tmp_path):
    assert "did you mean 'shapes3d'?" in refused(capsys, tmp_path, "shape3d")


def test_pictures_that_are_too_large(capsys, tmp_path):
    np.save(tmp_path / "large.npy", np.zeros((90, 300, 16), np.uint8))
    line = refused(capsys, tmp_path, tmp_path / "large.npy")
    assert "images of 1x300x16 have more than 256 pixels per side; make them smaller, or use --network mlp" in line
