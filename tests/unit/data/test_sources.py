"""Names and files: what is found, what is chosen, and the text of every refusal."""

import io
import zipfile

import numpy as np
import pytest

from narrows.data import SETS, Data, load
from narrows.errors import NarrowsError

ARRAY = np.random.default_rng(0).random((6, 5, 7, 3), dtype=np.float32)


def refusal(source, values="unit"):
    with pytest.raises(NarrowsError) as caught:
        load(source, values)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_npy_is_mapped_not_read(tmp_path):
    path = tmp_path / "faces.npy"
    np.save(path, ARRAY)
    for source in (path, str(path)):
        data = load(source)
        assert (data.name, data.values, data.test) == ("faces", "unit", None)
        assert data.note == f"read from {path}"
        assert isinstance(data.examples.array.base, np.memmap)
        np.testing.assert_array_equal(data.examples.batch(np.arange(6)).permute(0, 2, 3, 1).numpy(), ARRAY)


def test_fortran_order(tmp_path):
    np.save(tmp_path / "f.npy", np.asfortranarray(ARRAY))
    np.testing.assert_array_equal(
        load(tmp_path / "f.npy").examples.batch(np.arange(6)).permute(0, 2, 3, 1).numpy(), ARRAY
    )


def test_npz_with_one_array(tmp_path):
    np.savez_compressed(tmp_path / "one.npz", whatever=ARRAY)
    assert load(tmp_path / "one.npz").examples.shape == (3, 5, 7)


@pytest.mark.parametrize("key", ["x", "X", "data", "images", "imgs"])
def test_npz_with_a_usual_key(tmp_path, key):
    np.savez(tmp_path / "many.npz", labels=np.zeros(6), **{key: ARRAY})
    assert load(tmp_path / "many.npz").examples.shape == (3, 5, 7)


def test_npz_key_by_name_leaves_pickles_alone(tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, x=np.zeros((6, 2)), mine=ARRAY, metadata=np.array([{}]))
    assert load(path).examples.shape == (2,)
    assert load(f"{path}::mine").examples.shape == (3, 5, 7)
    assert f"{path} holds no array 'yours'; choose one of its keys: x, mine, metadata" in refusal(f"{path}::yours")
    assert "dtype object is not accepted" in refusal(f"{path}::metadata")


def test_npz_with_several_arrays_lists_them(tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, a=ARRAY, b=ARRAY)
    assert f"holds several arrays (a, b); choose one, for example {path}::a" in refusal(path)


def test_empty_npz(tmp_path):
    np.savez(tmp_path / "none.npz")
    assert "holds no arrays" in refusal(tmp_path / "none.npz")


def test_npz_member_that_is_no_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "a bytes is not an array" in refusal(tmp_path / "text.npz")


def test_a_key_is_for_archives(tmp_path):
    np.save(tmp_path / "one.npy", ARRAY)
    assert "holds a single array; leave out ::x" in refusal(f"{tmp_path / 'one.npy'}::x")


def test_the_checks_of_arrays_name_the_file(tmp_path):
    path = tmp_path / "wide.npy"
    np.save(path, ARRAY * 9)
    assert refusal(path).startswith(f"{path}: values run from ")
    assert load(path, values="any").values == "any"
    np.save(path, np.zeros((0, 5)))
    assert refusal(path) == f"{path}: shape (0, 5) is empty; every axis needs a length of 1 or more"
    np.save(path, np.array([{}, None]), allow_pickle=True)
    assert refusal(path).startswith(f"{path}: dtype object is not accepted")


def whole(kind):
    buffer = io.BytesIO()
    (np.save if kind == ".npy" else np.savez_compressed)(buffer, ARRAY)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", [".npy", ".npz"])
@pytest.mark.parametrize("keep", [0, 5, 60, 0.5, -1])
def test_truncated_files(tmp_path, kind, keep):
    path = tmp_path / f"cut{kind}"
    content = whole(kind)
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    assert refusal(path).startswith(f"{path}: the file is damaged or not a {kind} file (")


@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_files_of_something_else(tmp_path, kind):
    path = tmp_path / f"text{kind}"
    path.write_text("these are not the bytes you are looking for")
    assert "is damaged or not a" in refusal(path)


def test_flipped_bytes_in_an_archive(tmp_path):
    content = bytearray(whole(".npz"))
    content[200:400] = bytes(200)
    (tmp_path / "flipped.npz").write_bytes(content)
    assert "is damaged or not a .npz file" in refusal(tmp_path / "flipped.npz")


def test_unreadable_file(tmp_path, monkeypatch):
    np.save(tmp_path / "mine.npy", ARRAY)

    def deny(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "load", deny)
    assert "mine.npy: no permission to read it" in refusal(tmp_path / "mine.npy")


def test_array_larger_than_memory(tmp_path, monkeypatch):
    np.savez(tmp_path / "big.npz", x=ARRAY)

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(np, "load", fail)
    assert "does not fit in memory; save it as .npy" in refusal(tmp_path / "big.npz")


def test_unknown_names():
    assert refusal("foo") == "no such file or set: 'foo' (sets: dsprites; files: .npy, .npz)"
    assert refusal("dSprite").endswith("; did you mean 'dsprites'?")
    assert "no such file or set: 'missing.npy'" in refusal("missing.npy")
    assert "no such file or set" in refusal("x" * 5000)


def test_folders_and_other_files(tmp_path):
    assert "is a folder; give a file (.npy, .npz)" in refusal(tmp_path)
    (tmp_path / "table.csv").write_text("1,2")
    assert "table.csv: files of this kind are not read; save the array with numpy.save as table.npy" in refusal(
        tmp_path / "table.csv"
    )


def test_a_set_is_loaded_by_name(monkeypatch):
    made = Data("dsprites", examples=None, values="unit")
    monkeypatch.setitem(SETS, "dsprites", lambda: made)
    assert load("dsprites") is made
