"""HDF5: which dataset is read, whole chunks at a time, and the text of every error."""

import os
import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from narrows.data.readers import hdf5
from narrows.data.readers.hdf5 import load_hdf5
from refusals import refused

ARRAY = np.random.default_rng(0).random((6, 5, 7, 3), dtype=np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "faces.h5"


def write(path, **arrays):
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key.replace("__", "/")] = array


def refusal(path, key="", values="unit"):
    return refused(load_hdf5, path, key, values)


def images(data):
    return data.examples.batch(np.arange(len(data.examples))).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("layout", [{}, {"chunks": (4, 2, 7, 1)}, {"chunks": (4, 5, 7, 3), "compression": "gzip"}])
@pytest.mark.parametrize("share", [0.25, 0.0])
def test_values_arrive_exactly(path, cache, monkeypatch, layout, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    with h5py.File(path, "w") as file:
        file.create_dataset("faces", data=ARRAY, **layout)
        file["labels"] = np.arange(6)
    data = load_hdf5(path)
    assert (data.name, data.values, data.examples.shape) == ("faces", "unit", (3, 5, 7))
    np.testing.assert_array_equal(images(data), ARRAY)
    if share:
        assert data.note == f"read from {path}::faces"
        assert not cache.exists()
    else:
        assert isinstance(data.examples.array.base, np.memmap)
        (cached,) = cache.iterdir()
        assert cached.name.startswith("hdf5-")
        assert data.note == f"read from {path}::faces, cached in {cached}"


def test_a_large_set_is_converted_once(path, cache, monkeypatch):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    monkeypatch.setattr(hdf5, "CHUNK_BYTES", 1000)  # two images of 420 bytes
    write(path, x=ARRAY)
    seen = []
    for expected in ([2, 4, 6], []):
        np.testing.assert_array_equal(images(load_hdf5(path, progress=lambda *now: seen.append(now))), ARRAY)
        assert seen == [("reading faces.h5", done, 6) for done in expected]
        seen.clear()
    write(path, x=ARRAY[::-1])
    np.testing.assert_array_equal(images(load_hdf5(path)), ARRAY[::-1])
    assert len(os.listdir(cache)) == 2


@pytest.mark.parametrize("dtype", [">f4", ">f8", "f2", "u1", "?"])
@pytest.mark.parametrize("share", [0.25, 0.0])
def test_accepted_types(path, monkeypatch, dtype, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    array = (ARRAY > 0.5).astype(dtype) if dtype in ("u1", "?") else ARRAY.astype(dtype)
    write(path, x=array)
    data = load_hdf5(path)
    assert data.examples.array.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(images(data), array.astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "chunks", "rows"),
    [
        ((480_000, 64, 64, 3), None, 1365),
        ((480_000, 64, 64, 3), (1000, 64, 64, 3), 1000),
        ((480_000, 64, 64, 3), (7500, 4, 4, 1), 7500),
        ((480_000, 64, 64, 3), (1, 64, 64, 3), 1365),
        ((480_000, 64, 64, 3), (32, 64, 64, 3), 1344),
        ((480_000, 64, 64, 3), (480_000, 1, 1, 1), 43_690),  # 5.9 GB at once would be too much
        ((3, 2**31), None, 1),
    ],
)
def test_whole_chunks_are_read_where_they_fit(shape, chunks, rows):
    assert hdf5.rows_at_once(SimpleNamespace(shape=shape, dtype=np.dtype("u1"), chunks=chunks)) == rows


@pytest.mark.parametrize("key", ["x", "X", "data", "images", "imgs"])
def test_a_usual_key(path, key):
    write(path, labels=np.zeros((6, 2)), other__x=np.zeros((6, 2)), **{key: ARRAY})
    assert load_hdf5(path).examples.shape == (3, 5, 7)


def test_keys(path):
    write(path, train__images=ARRAY, train__labels=np.zeros((6, 2)), notes=np.zeros(3))
    assert load_hdf5(path, "train/images").note == f"read from {path}::train/images"
    np.testing.assert_array_equal(images(load_hdf5(path, "/train/images/")), ARRAY)
    listed = "notes (3,), train/images (6, 5, 7, 3), train/labels (6, 2)"
    assert refusal(path) == f"{path} holds several arrays ({listed}); choose one, for example {path}::train/images"
    assert refusal(path, "train/image") == (
        f"{path} holds no array 'train/image', or a link to one that cannot be opened; choose one of its keys: "
        f"{listed}; did you mean 'train/images'?"
    )
    assert refusal(path, "q").endswith(f"; choose one of its keys: {listed}")
    assert refusal(path, "train") == (
        f"{path}::train is a group, not an array; choose an array: train/images (6, 5, 7, 3), train/labels (6, 2)"
    )
    assert refusal(path, "/").endswith(f"is a group, not an array; choose an array: {listed}")


def test_many_keys_are_not_all_listed(path):
    write(path, **{f"a{i:02}": ARRAY for i in range(15)})
    assert "a07 (6, 5, 7, 3) and 7 more); choose one" in refusal(path)


def test_nothing_to_read(path):
    write(path, labels=np.zeros(3))
    said = f"{path} holds no array of rank 2 or more (labels (3,)); write one, with one example a row"
    assert refusal(path) == said
    with h5py.File(path, "w") as file:
        file.create_group("empty")
        file["kind"] = np.dtype("f4")
        file["void"] = h5py.Empty("f4")
    assert f"{path} holds no array of rank 2 or more; write one" in refusal(path)
    assert refusal(path, "empty") == f"{path}::empty is a group, not an array; choose an array: none"
    assert refusal(path, "kind") == f"{path}::kind is a datatype, not an array; choose an array: none"
    assert refusal(path, "void") == f"{path}::void is empty, without a shape; write an array to it"


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((4, 3), np.int64), "dtype int64 is not accepted"),
        (np.zeros((4, 3), [("a", "f4")]), "is not accepted"),
        (np.array([["a", "b"]], object), "dtype object is not accepted"),
        (np.zeros(4), "shape (4,) has rank 1"),
        (np.zeros((0, 3)), "shape (0, 3) is empty"),
        (np.zeros((2, 9, 9, 9)), "has no axis of 1, 3 or 4 channels"),
    ],
)
def test_refused_before_it_is_read(path, array, said, monkeypatch):
    write(path, x=array)
    monkeypatch.delattr(hdf5, "_rows")
    assert refusal(path, "x").startswith(f"{path}::x: ")
    assert said in refusal(path, "x")


def test_the_values_are_checked(path):
    write(path, x=ARRAY * 9)
    assert refusal(path).startswith(f"{path}::x: values range from ")
    assert load_hdf5(path, values="any").values == "any"


def test_links(tmp_path, path, monkeypatch):
    write(tmp_path / "other.h5", x=ARRAY)
    with h5py.File(path, "w") as file:
        file["there"] = h5py.ExternalLink("other.h5", "/x")
        file["gone"] = h5py.ExternalLink("gone.h5", "/x")
        file["soft"] = h5py.SoftLink("/nowhere")
    np.testing.assert_array_equal(images(load_hdf5(path, "there")), ARRAY)
    for key in ("gone", "soft"):
        assert f"{path} holds no array {key!r}, or a link to one that cannot be opened; choose" in refusal(path, key)

    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    load_hdf5(path, "there")
    write(tmp_path / "other.h5", x=ARRAY[::-1])
    np.testing.assert_array_equal(images(load_hdf5(path, "there")), ARRAY[::-1])


def test_virtual_datasets_need_their_sources(tmp_path, path):
    write(tmp_path / "a.h5", x=ARRAY[:4])
    write(tmp_path / "b.h5", x=ARRAY[4:])
    layout = h5py.VirtualLayout(ARRAY.shape, ARRAY.dtype)
    layout[:4] = h5py.VirtualSource("a.h5", "x", ARRAY[:4].shape)
    layout[4:] = h5py.VirtualSource("b.h5", "x", ARRAY[4:].shape)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("whole", layout)
    np.testing.assert_array_equal(images(load_hdf5(path)), ARRAY)
    write(tmp_path / "b.h5", y=ARRAY[4:])
    said = (
        f"{path}::whole is put together from other files, and b.h5 does not exist or holds no array 'x'; "
        f"put it beside {path}"
    )
    assert refusal(path) == said
    (tmp_path / "b.h5").unlink()
    assert refusal(path) == said


@pytest.mark.parametrize("behind", ["itself", "a virtual dataset", "a link"])
def test_external_storage_is_refused(tmp_path, path, behind):
    """It takes the bytes of any file for numbers: here a file of the user's."""
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(96))
    key = "x" if behind == "itself" else "y"
    with h5py.File(path if behind != "a link" else tmp_path / "other.h5", "w") as file:
        file.create_dataset(key, (4, 3), "f8", external=[(str(secret), 0, 96)])
        if behind == "a virtual dataset":
            layout = h5py.VirtualLayout((4, 3), "f8")
            layout[:] = h5py.VirtualSource(".", "y", (4, 3))
            file.create_virtual_dataset("x", layout)
    if behind == "a link":
        with h5py.File(path, "w") as file:
            file["x"] = h5py.ExternalLink("other.h5", "/y")
    assert refusal(path, "x").startswith(
        f"{path}::x keeps its values in another file, {secret} (HDF5's external storage), which is not read because "
    )


@pytest.mark.parametrize("way", ["link", "soft link", "link to a link", "virtual", "pattern", "virtual link"])
def test_files_outside_the_folder_are_not_opened(tmp_path, way):
    """The file that is named leads, in some way, to a file of the user's that lies elsewhere."""
    private, folder = tmp_path / "private-0.h5", tmp_path / "theirs"
    write(private, x=ARRAY)
    folder.mkdir()
    path = folder / "x.h5"
    layout = h5py.VirtualLayout(ARRAY.shape, ARRAY.dtype)
    with h5py.File(path, "w") as file:
        if way == "link":
            file["data"] = h5py.ExternalLink(str(private), "/x")
        elif way == "soft link":
            file["out"] = h5py.ExternalLink("../private-0.h5", "/")
            file["data"] = h5py.SoftLink("/out/x")
        elif way == "link to a link":
            with h5py.File(folder / "b.h5", "w") as other:
                other["y"] = h5py.ExternalLink(str(private), "/x")
            file["data"] = h5py.ExternalLink("b.h5", "/y")
        elif way == "virtual link":
            file["y"] = h5py.ExternalLink(str(private), "/x")
            layout[:] = h5py.VirtualSource(".", "y", ARRAY.shape)
            file.create_virtual_dataset("data", layout)
        elif way == "pattern":
            unlimited = (h5py.h5s.UNLIMITED, *ARRAY.shape[1:])
            space = h5py.h5s.create_simple(ARRAY.shape, unlimited)
            space.select_hyperslab((0,) * 4, (h5py.h5s.UNLIMITED, 1, 1, 1), ARRAY.shape, ARRAY.shape)
            settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            settings.set_virtual(space, b"../private-%b.h5", b"x", h5py.h5s.create_simple(ARRAY.shape))
            whole = h5py.h5s.create_simple(ARRAY.shape, unlimited)
            h5py.h5d.create(file.id, b"data", h5py.h5t.IEEE_F32LE, whole, settings)
        else:
            layout[:] = h5py.VirtualSource(str(private), "x", ARRAY.shape)
            file.create_virtual_dataset("data", layout)
    text = refusal(path, "data")
    assert text.startswith(f"{path}::data ")
    assert f", outside the folder {folder}, where it could be any file of yours; if you trust it, move" in text


def test_a_link_may_lead_to_the_file_itself(tmp_path, path):
    write(path, x=ARRAY)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "x.h5").symlink_to(path)
    assert len(load_hdf5(tmp_path / "links" / "x.h5").examples) == len(ARRAY)


def test_a_link_to_a_pipe_does_not_wait(tmp_path, path):
    os.mkfifo(tmp_path / "pipe.h5")
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink("pipe.h5", "/x")
    assert refusal(path, "x").startswith(f"{tmp_path / 'pipe.h5'} is a named pipe, not a file")


def test_links_in_a_circle(path):
    with h5py.File(path, "w") as file:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")
    assert refusal(path, "a") == f"{path}::a goes through more than 16 links; name the array itself"


@pytest.mark.parametrize("size", [(10_000_000, 1000), (10_000_000, 10**9)])
def test_more_is_declared_than_was_ever_written(path, cache, size):
    """1.4 KB that declare 40 GB, or 40 PB, write nothing to the cache."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", size, "f4", chunks=(1000, 1000) if size[1] == 1000 else (1, 1000))
    text = refusal(path)
    if size[1] == 1000:
        assert text.startswith(
            f"{path}::x: 1,400 bytes in the file would become an array of 40 GB, more than 500 times"
        )
    else:
        assert "has 1,000,000,000 values per example, and at most 67,108,864 can be trained on; make" in text
    assert not cache.exists()


def test_chunks_too_large_to_decompress(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**6, 1000), "f4", chunks=(900_000, 1000), compression="gzip")
    assert refusal(path).startswith(
        f"{path}::x is stored in chunks of 3.6 GB, and a chunk can only be read as a whole; "
    )


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, -1])
def test_truncated_files(path, keep):
    write(path, x=ARRAY)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    assert refusal(path).startswith(f"{path}: the file is damaged or not an HDF5 file (")


@pytest.mark.parametrize("share", [0.25, 0.0])
def test_flipped_bytes(path, cache, monkeypatch, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=ARRAY, chunks=(6, 5, 7, 3), compression="gzip")
        place = dataset.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[place + 100 : place + 300] = bytes(200)
    path.write_bytes(content)
    assert refusal(path).startswith(f"{path}::x: the file is damaged or not an HDF5 file (")
    assert not cache.exists() or os.listdir(cache) == []


def test_files_of_something_else(tmp_path, path):
    path.write_text("these are not the bytes you are looking for")
    assert refusal(path).startswith(f"{path}: the file is damaged or not an HDF5 file (")
    assert refusal(path).endswith("file signature not found)); fetch or write it again")
    assert refusal(tmp_path / "no.h5").endswith("no.h5 cannot be read (No such file or directory); check the path")
    assert refusal(tmp_path).endswith("cannot be read (Is a directory); check the path")


def test_without_h5py(path, monkeypatch):
    write(path, x=ARRAY)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert refusal(path) == "reading HDF5 files needs h5py: pip install 'narrows[hdf5]'"
