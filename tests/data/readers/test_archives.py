"""Archives: which member is read, what is checked before it is, and how one too large for memory goes to the cache."""

import io
import os
import zipfile

import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.data.cache import converted_array, file_digest
from narrows.data.readers import shared
from narrows.data.readers.archives import load_npy, load_npz
from refusals import refused

ARRAY = np.random.default_rng(0).random((6, 5, 7, 3), dtype=np.float32)


@pytest.fixture
def no_memory(monkeypatch):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)


def refusal(path, key="", values="unit"):
    return refused(load_npz, path, key, values)


def images(data):
    return data.examples.batch(np.arange(len(data.examples))).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_one_array_is_read_into_memory(tmp_path, cache, save):
    path = tmp_path / "faces.npz"
    save(path, whatever=ARRAY)
    data = load_npz(path)
    assert (data.name, data.values, data.note) == ("faces", "unit", f"read from {path}")
    assert load_npz(path, "whatever").note == f"read from {path}::whatever"
    assert not isinstance(data.examples.array.base, np.memmap)
    np.testing.assert_array_equal(images(data), ARRAY)
    assert not cache.exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_array_too_large_for_memory_is_unpacked_once_and_mapped(tmp_path, cache, save, no_memory, monkeypatch):
    monkeypatch.setattr("narrows.data.readers.archives.CHUNK_BYTES", 1000)  # two images of 420 bytes
    path = tmp_path / "faces.npz"
    save(path, x=ARRAY, other=np.zeros((2, 2)))
    seen = []
    data = load_npz(path, progress=lambda *now: seen.append(now))
    assert seen == [("reading faces.npz", done, 6) for done in (2, 4, 6)]
    assert isinstance(data.examples.array.base, np.memmap)
    np.testing.assert_array_equal(images(data), ARRAY)
    (cached,) = cache.iterdir()
    assert cached.name == f"npz-{file_digest(path, 'x.npy')}.npy"
    assert data.note == f"read from {path}, cached in {cached}"

    seen.clear()
    np.testing.assert_array_equal(images(load_npz(path, progress=lambda *now: seen.append(now))), ARRAY)
    assert seen == []

    save(path, x=ARRAY[::-1])
    np.testing.assert_array_equal(images(load_npz(path)), ARRAY[::-1])
    assert len(os.listdir(cache)) == 2


@pytest.mark.parametrize("dtype", [">f4", "<f4", ">f8", ">f2", "u1", "?"])
@pytest.mark.parametrize("share", [0.25, 0.0])
def test_any_byte_order(tmp_path, monkeypatch, dtype, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    array = (ARRAY > 0.5).astype(dtype) if dtype in ("u1", "?") else ARRAY.astype(dtype)
    np.savez(tmp_path / "a.npz", array)
    data = load_npz(tmp_path / "a.npz")
    assert data.examples.array.dtype.isnative
    np.testing.assert_array_equal(images(data), array.astype(np.float32))


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_fortran_order_is_read_into_memory_only(tmp_path, monkeypatch, dtype):
    path = tmp_path / "f.npz"
    np.savez(path, np.asfortranarray(ARRAY.astype(dtype)))
    np.testing.assert_array_equal(images(load_npz(path)), ARRAY)
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    assert refusal(path) == (
        f"{path}: an array of 2.52e-06 GB in Fortran order cannot be read in parts; "
        "save it again from numpy.ascontiguousarray(array)"
    )


@pytest.mark.parametrize("key", ["x", "X", "data", "images", "imgs"])
def test_a_usual_key(tmp_path, key):
    np.savez(tmp_path / "many.npz", labels=np.zeros(6), **{key: ARRAY})
    assert load_npz(tmp_path / "many.npz").examples.shape == (3, 5, 7)


def test_a_key_by_name_leaves_pickles_alone(tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, x=np.zeros((6, 2)), mine=ARRAY, metadata=np.array([{}]))
    assert load_npz(path).examples.shape == (2,)
    assert load_npz(path, "mine").examples.shape == (3, 5, 7)
    assert refusal(path, "yours") == f"{path} holds no array 'yours'; choose one of its keys: x, mine, metadata"
    assert refusal(path, "metadata").startswith(f"{path}::metadata: dtype object is not accepted")


def test_several_arrays_are_listed(tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, a=ARRAY, b=ARRAY)
    assert refusal(path) == f"{path} holds several arrays (a, b); choose one, for example {path}::a"


def test_no_arrays(tmp_path):
    np.savez(tmp_path / "none.npz")
    assert refusal(tmp_path / "none.npz").endswith("none.npz holds no arrays; write it again with numpy.savez")


def test_a_member_that_is_no_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "b'hello' is not the start of an array" in refusal(tmp_path / "text.npz")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((4, 3), np.int64), "dtype int64 is not accepted"),
        (np.zeros((4, 3), [("a", "f4"), ("ä", "f4")]), "is not accepted"),
        (np.zeros(4), "shape (4,) has rank 1"),
        (np.float64(1), "shape () has rank 0"),
        (np.zeros((0, 3)), "shape (0, 3) is empty"),
        (np.zeros((2, 9, 9, 9)), "has no axis of 1, 3 or 4 channels"),
    ],
)
@pytest.mark.filterwarnings("ignore:Stored array in format")  # numpy on fields outside latin1
def test_refused_by_its_header(tmp_path, array, said, monkeypatch):
    np.savez(tmp_path / "odd.npz", array)
    monkeypatch.delattr("narrows.data.readers.archives._rows")
    assert said in refusal(tmp_path / "odd.npz")


def test_the_values_are_checked(tmp_path):
    np.savez(tmp_path / "wide.npz", ARRAY * 9)
    assert refusal(tmp_path / "wide.npz").startswith(f"{tmp_path / 'wide.npz'}: values range from ")
    assert load_npz(tmp_path / "wide.npz", values="any").values == "any"


def whole(save=np.savez_compressed):
    buffer = io.BytesIO()
    save(buffer, ARRAY)
    return buffer.getvalue()


@pytest.mark.parametrize("keep", [0, 5, 60, 0.5, -1])
def test_truncated_files(tmp_path, keep):
    path = tmp_path / "cut.npz"
    content = whole()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    assert refusal(path).startswith(f"{path}: the file is damaged or not a .npz file (")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("share", [0.25, 0.0])
def test_flipped_bytes(tmp_path, cache, monkeypatch, save, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    content = bytearray(whole(save))
    content[-400:-200] = bytes(200)
    path = tmp_path / "flipped.npz"
    path.write_bytes(content)
    assert refusal(path).startswith(f"{path}: the file is damaged or not a .npz file (")
    assert not cache.exists() or os.listdir(cache) == []


def test_a_header_that_promises_too_much(tmp_path):
    buffer = io.BytesIO()
    fields = {"descr": "<f4", "fortran_order": False, "shape": (10**9, 10**3)}
    np.lib.format.write_array_header_1_0(buffer, fields)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as archive:
        archive.writestr("x.npy", buffer.getvalue() + bytes(100))
    assert (
        "damaged or not a .npz file (228 bytes instead of 4,000,000,000,128 for shape (1000000000, 1000))"
        in refusal(tmp_path / "bomb.npz")
    )


def test_files_of_something_else(tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("these are not the bytes you are looking for")
    assert "the file is damaged or not a .npz file (File is not a zip file)" in refusal(path)


def test_digest_tells_files_apart(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("1")
    first = file_digest(path, "key")
    assert len(first) == 16
    monkeypatch.chdir(tmp_path)
    assert file_digest(type(path)("a"), "key") == first
    os.utime(path, ns=(1, 1))
    others = {file_digest(path, "key"), file_digest(path, "other"), file_digest(path)}
    path.write_text("12")
    os.utime(path, ns=(1, 1))
    others.add(file_digest(path, "key"))
    assert len(others - {first}) == 4
    with pytest.raises(NarrowsError, match="none cannot be read"):
        file_digest(tmp_path / "none")


def test_rows_of_unknown_number_are_gathered(cache, monkeypatch):
    made = np.arange(20.0).reshape(10, 2)

    def chunks():
        yield from (made[:4], made[4:8], made[8:])

    array, where = converted_array("made.npy", (2,), made.dtype, chunks)
    np.testing.assert_array_equal(array, made)
    assert where == ""
    monkeypatch.setattr("narrows.data.cache.fits_in_memory", lambda nbytes: nbytes < 100)
    for source in (chunks, lambda: pytest.fail("must come from the cache")):
        array, where = converted_array("made.npy", (2,), made.dtype, source)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, made)
        assert where == f", cached in {cache / 'made.npy'}"


def test_what_memory_refuses_goes_to_the_cache(cache, monkeypatch):
    made = np.ones((3, 2))

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("narrows.data.cache.filled", fail)
    monkeypatch.setattr("narrows.data.cache._collected", fail)
    for count in (3, None):
        array, _ = converted_array(f"{count}.npy", (2,), made.dtype, lambda: [made], count)
        np.testing.assert_array_equal(array, made)
        assert isinstance(array, np.memmap)


def npy_header(shape, fortran=False):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": fortran, "shape": shape})
    return buffer.getvalue()


@pytest.mark.parametrize("fortran", [False, True])
def test_a_member_that_would_become_far_larger_than_the_file(tmp_path, monkeypatch, fortran):
    """Ten kilobytes of zeros, compressed a thousand times: nothing is decompressed."""
    monkeypatch.setattr(shared, "SMALL_ARRAY", 10**6)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_header((10**4, 1000), fortran) + bytes(10**7))
    monkeypatch.delattr("narrows.data.readers.archives._rows")
    monkeypatch.delattr("narrows.data.readers.archives._read_fortran")
    text = refusal(tmp_path / "bomb.npz")
    assert "bytes in the file would become an array of 10 MB, more than 500 times as much, so it is damaged or" in text
    assert text.endswith("if it is right, save it with numpy.save as .npy, which is mapped from disk")


def test_a_member_whose_directory_lies_about_its_size(tmp_path):
    """The zip directory and the .npy header declare 4 GB, and the member has a kilobyte."""
    path = tmp_path / "lie.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_header((4 * 10**6, 1000)) + bytes(1000))
    content = bytearray(path.read_bytes())
    at = content.rfind(b"PK\x01\x02") + 24
    content[at : at + 4] = (2**32 - 16).to_bytes(4, "little")
    path.write_bytes(content)
    assert "bytes in the file would become an array of 4 GB" in refusal(path)


@pytest.mark.parametrize("start", [b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", b"\x93NUMPY\x01\x00\xff\xff"])
def test_a_header_of_two_gigabytes_is_not_read(tmp_path, start):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", start + b" " * 10**6)
    (tmp_path / "bomb.npy").write_bytes(start)
    length = f"{int.from_bytes(start[8:], 'little'):,}"
    assert f"not a .npz file (its header has {length} characters)" in refusal(tmp_path / "bomb.npz")
    assert f"not a .npy file (its header has {length} characters)" in refused(load_npy, tmp_path / "bomb.npy")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((10**12, 1000), "128 bytes instead of 1,000,000,000,000,128 for shape (1000000000000, 1000)"),
        ((2**62, 2**62), "128 bytes instead of"),
        ((-5, 4), "shape (-5, 4) has a negative side"),
    ],
)
def test_an_npy_file_that_promises_too_much(tmp_path, shape, said):
    (tmp_path / "x.npy").write_bytes(npy_header(shape))
    assert f"the file is damaged or not a .npy file ({said}" in refused(load_npy, tmp_path / "x.npy")


def test_a_file_of_holes(tmp_path):
    """100 GB that take four kilobytes of disk are not read for minutes."""
    path, header = tmp_path / "holes.npy", npy_header((10**8, 1000))
    path.write_bytes(header)
    os.truncate(path, len(header) + 10**11)
    assert "in the file would become an array of 100 GB, more than 500 times" in refused(load_npy, path)


def test_one_example_that_no_network_can_take(tmp_path):
    path = tmp_path / "wide.npy"
    path.write_bytes(npy_header((2, 10**8)))
    os.truncate(path, 128 + 2 * 10**8)
    assert refused(load_npy, path) == (
        f"{path}: shape (2, 100000000) has 100,000,000 values per example, and at most 67,108,864 can be trained on; "
        "make the examples smaller"
    )


def test_an_archive_under_the_name_of_an_array(tmp_path):
    with (tmp_path / "x.npy").open("wb") as file:
        np.savez(file, x=ARRAY)
    text = refused(load_npy, tmp_path / "x.npy")
    assert text == f"{tmp_path / 'x.npy'} is an archive (.npz); save one array of it with numpy.save"
