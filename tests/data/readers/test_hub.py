"""hf: sets, from folders that the datasets library itself wrote and from a hub on loopback that refuses."""

import http.server
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    datasets = pytest.importorskip("datasets")

from narrows.data.readers.hub import load_hub
from narrows.data.splits import split
from refusals import refused

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (9, 16, 20), dtype=np.uint8)
LABELS = [0, 1, 2, 0, 1, 2, 0, 1, 2]
ANIMALS = datasets.ClassLabel(names=["cat", "dog", "emu"])


@pytest.fixture(autouse=True)
def library_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "library")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def write(folder, features, train=slice(0, 6), test=slice(6, 9), **columns):
    """Write columns of nine rows as train and test parquet files."""
    for name, rows in {"train": train, "test": test}.items():
        if rows is not None:
            chosen = {column: list(content)[rows] for column, content in columns.items()}
            made = datasets.Dataset.from_dict(chosen, features=datasets.Features(features))
            made.to_parquet(folder / f"{name}.parquet")


def write_images(folder, **options):
    features = {"picture": datasets.Image(), "animal": ANIMALS, "text": datasets.Value("string")}
    pictures = [Image.fromarray(image) for image in PIXELS]
    write(folder, features, picture=pictures, animal=LABELS, text=list("abcdefghi"), **options)


def refusal(source, **options):
    return refused(load_hub, str(source), **options)


def test_images_with_labels_and_a_test_split(folder, cache, capfd):
    write_images(folder)
    capfd.readouterr()  # what writing said
    data = load_hub(str(folder))
    assert (data.name, data.values, data.examples.shape, data.columns) == ("mine", "unit", (1, 16, 20), ())
    np.testing.assert_array_equal(data.examples.array[..., 0], PIXELS)
    np.testing.assert_array_equal(data.test, [6, 7, 8])
    np.testing.assert_array_equal(split(data).test, [6, 7, 8])
    assert data.factors.names == ("animal",)
    assert data.factors.factors[0].value_names == ("cat", "dog", "emu")
    np.testing.assert_array_equal(data.factors.of(np.arange(9))[:, 0], LABELS)
    (file,) = cache.glob("*.npy")
    assert data.note == f"6 train and 3 test examples of hf:{folder}, cached in {file}"
    assert capfd.readouterr() == ("", "")


def test_converted_once_and_anew_when_the_files_change(folder, cache):
    write_images(folder)
    calls = []
    load_hub(str(folder), progress=lambda *call: calls.append(call))
    assert calls == [
        (f"loading hf:{folder}", 0, 0),
        ("reading image headers", 9, 9),
        ("decoding images", 9, 9),
    ]
    calls.clear()
    load_hub(str(folder), progress=lambda *call: calls.append(call))
    assert calls == [(f"loading hf:{folder}", 0, 0)]
    write_images(folder, train=slice(0, 5))
    os.utime(folder / "train.parquet", ns=(1, 1))
    data = load_hub(str(folder))
    np.testing.assert_array_equal(data.examples.array[..., 0], np.delete(PIXELS, 5, axis=0))
    assert len(list(cache.glob("*.npy"))) == 2


def test_a_folder_of_images_as_the_library_reads_it(folder):
    for i, image in enumerate(PIXELS):
        path = folder / "train" / ANIMALS.names[i % 3] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    data = load_hub(str(folder))
    order = [0, 3, 6, 1, 4, 7, 2, 5, 8]
    np.testing.assert_array_equal(data.examples.array[..., 0], PIXELS[order])
    assert data.test is None
    np.testing.assert_array_equal(data.factors.of(np.arange(9))[:, 0], [0, 0, 0, 1, 1, 1, 2, 2, 2])


def test_images_in_an_archive(folder):
    with zipfile.ZipFile(folder / "train.zip", "w") as archive:
        for i, image in enumerate(PIXELS):
            archive.writestr(f"{i}.png", Image.fromarray(image)._repr_png_())
    np.testing.assert_array_equal(load_hub(str(folder)).examples.array[..., 0], PIXELS)
    content = bytearray((folder / "train.zip").read_bytes())
    content[60:100] = bytes(40)  # within the first image
    (folder / "train.zip").write_bytes(content)
    assert f"hf:{folder}: {folder}/train.zip is damaged (Bad CRC-32 for file '0.png')" in refusal(folder)


def test_images_of_several_sizes_need_a_size(folder):
    pictures = [Image.new("RGB", (20 + i, 16)) for i in range(9)]
    write(folder, {"image": datasets.Image()}, image=pictures)
    assert refusal(folder).startswith(
        f"hf:{folder}::image: images of 9 sizes, for example hf:{folder}::image, row 0, of 16 x 20 and "
    )
    assert load_hub(str(folder), size=(32, 24)).examples.shape == (3, 32, 24)


@pytest.mark.parametrize("content", [{"bytes": b"no image", "path": None}, None])
def test_a_broken_image_is_named(folder, content):
    good = {"bytes": Image.new("L", (16, 16))._repr_png_(), "path": None}
    write(folder, {"image": datasets.Image()}, image=[good] * 4 + [content] + [good] * 4)
    assert refusal(folder).startswith(f"hf:{folder}::image, row 4, is a broken image (it is not one of PNG, ")


UINT8 = RNG.integers(0, 256, (9, 4, 5), dtype=np.uint8)
FLOATS = RNG.random((9, 4, 5, 3), dtype=np.float32)


def arrays():
    def nested(depth, dtype, length=-1):
        inner = datasets.Value(dtype) if depth == 1 else nested(depth - 1, dtype)
        return datasets.Sequence(inner, length=length)

    yield datasets.Array2D((4, 5), "uint8"), UINT8, UINT8 / 255
    yield datasets.Array3D((4, 5, 3), "float32"), FLOATS, FLOATS
    yield nested(1, "float64", length=5), FLOATS[:, 0, :, 0], FLOATS[:, 0, :, 0]
    yield nested(1, "uint8"), UINT8[:, 0], UINT8[:, 0] / 255
    yield nested(2, "float32"), FLOATS[..., 0], FLOATS[..., 0]
    yield nested(3, "float16"), np.float16(FLOATS), np.float16(FLOATS)
    yield nested(1, "bool"), UINT8[:, 0] > 99, UINT8[:, 0] > 99
    yield nested(2, "int64"), np.int64(UINT8 > 99), UINT8 > 99


@pytest.mark.parametrize(("feature", "content", "expected"), list(arrays()))
def test_arrays_and_lists_are_stacked(folder, feature, content, expected):
    write(folder, {"x": feature, "y": datasets.Value("int64")}, x=content.tolist(), y=range(9))
    data = load_hub(str(folder))
    batch = data.examples.batch(np.arange(9)).numpy()
    if batch.ndim == 4:
        batch = batch.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(batch.reshape(expected.shape), expected, rtol=1e-6)
    np.testing.assert_array_equal(data.test, [6, 7, 8])


def test_many_rows_go_in_chunks(folder, monkeypatch):
    monkeypatch.setattr("narrows.data.readers.hub.CHUNK_BYTES", 4 * 20)
    write(folder, {"x": datasets.Array2D((4, 5), "uint8")}, x=UINT8.tolist())
    calls = []
    data = load_hub(str(folder), progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(data.examples.array[..., 0], UINT8)
    assert [done for _, done, _ in calls] == [0, 4, 8, 9]


def test_a_table_of_numbers(folder):
    content = {
        "height": RNG.random(9),
        "count": np.arange(9) + 1_700_000_000,
        "sunny": np.arange(9) % 2 == 0,
    }
    features = {"animal": ANIMALS} | {
        name: datasets.Value(dtype) for name, dtype in zip(content, ("float64", "int64", "bool"), strict=True)
    }
    write(folder, features, animal=LABELS, **{name: column.tolist() for name, column in content.items()})
    data = load_hub(str(folder))
    assert (data.columns, data.values, data.examples.shape) == (("height", "count", "sunny"), "any", (3,))
    np.testing.assert_array_equal(data.examples.array, np.stack(list(content.values()), axis=1))
    assert data.factors.names == ("animal",)
    one = load_hub(f"{folder}::height")
    assert (one.columns, one.examples.shape) == (("height",), (1,))
    assert refusal(folder, size=(64, 64)) == (f"hf:{folder}::height holds numbers, not images; leave out image_size")


def test_hidden_labels_are_left_out(folder):
    write(
        folder, {"x": datasets.Sequence(datasets.Value("float32")), "y": ANIMALS}, x=[[0.5]] * 9, y=[0] * 6 + [-1] * 3
    )
    assert load_hub(str(folder)).factors is None


def test_splits_of_different_columns(folder):
    write(folder, {"x": datasets.Value("float32")}, x=[0.5] * 9, test=None)
    write(folder, {"y": datasets.Value("string")}, y=["y"] * 9, train=None)
    assert f"hf:{folder} cannot be loaded (" in refusal(folder)


@pytest.mark.parametrize("empty", ["train", "test"])
def test_an_empty_split(folder, empty):
    write(folder, {"x": datasets.Value("float32")}, x=[0.5] * 9, **{empty: slice(0, 0)})
    assert f'hf:{folder} cannot be loaded (Instruction "{empty}" corresponds to no data!)' in refusal(folder)


def test_columns(folder):
    numbers, words = datasets.Sequence(datasets.Value("float32")), datasets.Value("string")
    features = {
        "a": numbers,
        "b": numbers,
        "text": words,
        "kind": ANIMALS,
        "pictures": datasets.Sequence(datasets.Image()),
    }
    write(folder, features, a=[[0.25]] * 9, b=[[0.75, 1]] * 9, text=["t"] * 9, kind=LABELS, pictures=[[]] * 9)
    listed = "a (List of float32), b (List of float32), text (string), kind (ClassLabel), pictures (List of Image)"
    assert refusal(folder) == (
        f"hf:{folder}: several columns could hold the examples; choose one with hf:{folder}::COLUMN: {listed}"
    )
    assert load_hub(f"{folder}::a").examples.shape == (1,)
    assert load_hub(f"{folder}::b").examples.shape == (2,)
    assert refusal(f"{folder}::c") == f"hf:{folder} has no column 'c'; its columns are {listed}"
    for column, kind in {"text": "string", "kind": "ClassLabel", "pictures": "List of Image"}.items():
        assert refusal(f"{folder}::{column}") == (
            f"hf:{folder}::{column} holds ({kind}), neither images nor numbers; choose another of its columns: {listed}"
        )


def test_the_usual_column_is_taken_among_several_images(folder):
    pictures = [Image.fromarray(image) for image in PIXELS]
    write(folder, {"mask": datasets.Image(), "img": datasets.Image()}, mask=pictures[::-1], img=pictures)
    np.testing.assert_array_equal(load_hub(str(folder)).examples.array[..., 0], PIXELS)
    np.testing.assert_array_equal(load_hub(f"{folder}::mask").examples.array[..., 0], PIXELS[::-1])


@pytest.mark.parametrize("bytes_", [1 << 24, 1])  # one chunk; chunks of one row
def test_rows_of_different_lengths(folder, monkeypatch, bytes_):
    monkeypatch.setattr("narrows.data.readers.hub.CHUNK_BYTES", bytes_)
    nested = datasets.Sequence(datasets.Sequence(datasets.Value("float32")))
    write(folder, {"x": nested}, x=[[[0.5] * 3] * 2] * 4 + [[[0.5] * 3, [0.5]]] + [[[0.5] * 3] * 2] * 4)
    assert refusal(folder) == (
        f"hf:{folder}::x: row 4 has another length than the rows before it; choose a column of one shape"
    )


def test_missing_values(folder):
    write(folder, {"x": datasets.Value("float32")}, x=[0.5] * 5 + [None] + [0.5] * 3)
    assert "::x: values are missing, first in rows 0 to 8; choose another column" in refusal(folder)


def test_splits_and_configurations(folder):
    write(folder, {"x": datasets.Value("float32")}, x=[0.5] * 9, train=None)
    assert refusal(folder) == f"hf:{folder} has no split 'train', only test; choose another set"
    assert "BuilderConfig 'other' not found. Available: ['default']); choose one with hf:" in refusal(f"{folder}@other")
    write(folder, {"x": datasets.Value("float32")}, x=[0.5] * 9)
    (folder / "README.md").write_text(
        "---\nconfigs:\n"
        "- config_name: one\n  data_files: train.parquet\n"
        "- config_name: two\n  data_files: test.parquet\n---\n"
    )
    assert len(load_hub(f"{folder}@one").examples) == 6
    assert len(load_hub(f"{folder}@two::x").examples) == 3
    assert "Config name is missing" in (text := refusal(folder))
    assert "['one', 'two']" in text
    assert text.endswith(f"choose one with hf:{folder}@CONFIG")


def test_unknown_names(folder):
    assert refusal("") == "hf: has no name; write hf:NAME, hf:NAME@CONFIG or hf:NAME@CONFIG::COLUMN"
    assert "hf:@one has no name" in refusal("@one")
    assert f"hf:{folder}/gone: the folder {folder}/gone does not exist; use a folder, or the name" in refusal(
        folder / "gone"
    )
    assert (
        f"hf:{folder} cannot be loaded (The directory at {folder} doesn't contain any data files); check the name"
        in (refusal(folder))
    )


def test_code_of_a_set_is_not_run(folder):
    (folder / "mine.py").write_text("raise SystemExit('code was run')")
    assert f"hf:{folder} cannot be loaded (" in refusal(folder)


def test_bars_and_logs_are_restored(folder):
    before = logging.getLogger("datasets").level, datasets.are_progress_bars_disabled()
    refusal(folder)
    assert (logging.getLogger("datasets").level, datasets.are_progress_bars_disabled()) == before


def test_without_the_library(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert refusal(folder) == "reading hf: sets needs datasets: pip install 'narrows[hub]'"


class Refusing(http.server.BaseHTTPRequestHandler):
    """A hub without sets, one gated set apart."""

    def do_GET(self):
        gated = "gated" in self.path
        self.send_response(403 if gated else 404)
        self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def test_a_hub_that_refuses(tmp_path):
    code = (
        "from narrows.data.readers.hub import load_hub\n"
        "for name in ('some/unknown', 'some/gated'):\n"
        "    try: load_hub(name)\n"
        "    except ValueError as error: print(error)\n"
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = os.environ | {
            "HF_HOME": str(tmp_path),
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HUB_OFFLINE": "0",
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        server.shutdown()
    assert done.stderr == ""
    unknown, gated = done.stdout.splitlines()
    assert unknown.startswith("hf:some/unknown cannot be loaded (Dataset 'some/unknown' doesn't exist on the Hub")
    assert unknown.endswith("; check the name, or use a folder of Parquet, CSV or image files")
    assert gated.startswith("hf:some/gated cannot be loaded (")
    assert gated.endswith("; accept its terms on its page and log in with `hf auth login`")


def test_without_a_network(monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = refusal("some/unknown")
    assert text.startswith("hf:some/unknown cannot be loaded (Couldn't reach 'some/unknown' on the Hub")
    assert text.endswith("; only sets that were loaded before are available without one")


def test_a_set_that_names_pictures_of_the_user(folder, tmp_path):
    """A table may hold paths instead of pictures."""
    private = tmp_path / "private.png"
    Image.fromarray(PIXELS[0]).save(private)
    features = datasets.Features({"picture": datasets.Image()})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"picture": pa.array([{"bytes": None, "path": str(private)}] * 6, kind)})
    described = {"huggingface": json.dumps({"info": {"features": features.to_dict()}})}
    pq.write_table(table.replace_schema_metadata(described), folder / "train.parquet")
    assert refusal(folder) == (
        f"hf:{folder}::picture names the file {private}, which is not a part of the set and could be any picture of "
        "yours; use a set that holds its images"
    )


def test_a_named_pipe_in_a_folder(folder):
    write_images(folder)
    os.mkfifo(folder / "validation.parquet")
    assert refusal(folder).startswith(f"{folder / 'validation.parquet'} is a named pipe, not a file; ")
