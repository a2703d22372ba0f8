"""Streams as data: the same rows as on disk, little of them at a time, whatever happens to the connection."""

import gc
import io
import os
import socket
import sys
import threading

import numpy as np
import pytest
import torch

from http_server import LocalServer
from narrows.data import Batches, load, split
from narrows.data.streams import shard_cache, transfer
from narrows.training.fingerprint import fingerprint
from refusals import refused

CACHE = 46_000
"""Bytes: half of it holds two or three of the shards."""
URL = "{}/part-{{0..7}}.npy"


def streamed(parts, **options):
    return load(parts, stream=True, **{"cache_size": CACHE, **options})


def remote(server, **options):
    return load(URL.format(server.url), **{"cache_size": CACHE, **options})


def cached(tmp_path):
    return sorted(path for path in (tmp_path / "cache" / "streams").rglob("*") if path.is_file())


def one_epoch(data, pictures, size=32):
    """Train on one epoch, so to speak: check every batch, and return the rows that came."""
    batches = Batches(split(data).training, size, 0)
    rows = [batches.next() for _ in range(batches.per_epoch)]
    for index in rows:
        expected = pictures[index].transpose(0, 3, 1, 2) / np.float32(255)
        np.testing.assert_allclose(data.examples.batch(index).numpy(), expected, rtol=1e-6)
    return np.concatenate(rows)


@pytest.mark.parametrize("by", ["row", "shard"])
def test_a_stream_serves_the_rows_of_its_shards(parts, pictures, tmp_path, by):
    data = streamed(parts, split_by=by)
    assert (data.name, len(data.examples), data.examples.shape) == ("parts", 600, (3, 6, 5))
    assert data.note == f"streamed from {parts}, 8 shards of 55,024 bytes in all"
    splits = split(data)
    assert splits.rule == f"by a hash of each {by}"
    assert len(splits.train) == 40, "a sample"
    together = np.concatenate([one_epoch(data, pictures, 1), splits.validation, splits.test])
    assert len(np.unique(together)) == len(together)
    if by == "row":
        assert len(together) == 600
    on_disk = load(parts).examples.batch(np.arange(600))
    assert torch.equal(data.examples.batch(np.arange(600)), on_disk)
    assert torch.equal(data.examples.batch(np.array([599, 3, 3])), on_disk[[599, 3, 3]])


def test_the_cache_never_holds_more_than_it_may(parts, tmp_path, monkeypatch):
    data, largest = streamed(parts), []
    batches = Batches(split(data).training, 16, 0)
    fetched = shard_cache.ShardCache._fetched

    def size(path):
        try:
            return path.stat().st_size
        except FileNotFoundError:  # another thread has just removed it
            return 0

    def measured(*arguments):
        held = fetched(*arguments)
        largest.append(sum(map(size, cached(tmp_path))))
        return held

    monkeypatch.setattr(shard_cache.ShardCache, "_fetched", measured)
    for _ in range(3 * batches.per_epoch):
        data.examples.batch(batches.next())
    data.examples.batch(np.arange(600))
    assert len(largest) > 24
    assert max(largest) <= CACHE


def test_nothing_is_left_in_the_cache_but_the_held_out_rows(parts, tmp_path):
    data = streamed(parts)
    data.examples.batch(Batches(split(data).training, 16, 0).next())
    assert cached(tmp_path)
    threads = list(data.stream.cache._threads)
    del data
    for thread in threads:
        thread.join()
    gc.collect()
    assert cached(tmp_path) == []
    assert [path.suffix for path in (tmp_path / "cache").iterdir() if path.is_file() and path.name[0] != "."] == [
        ".npy"
    ]


def test_held_out_rows_are_copied_once(web, pictures, tmp_path):
    first = split(remote(web))
    before = len(web.requests)
    data = remote(web)
    second = split(data)
    headers = [asked for path, asked in web.requests[before:]]
    assert len(headers) <= 1 + 3 * 8, "is anybody there; lengths, headers and first rows again, and no other row"
    for a, b in ((first.validation, second.validation), (first.test, second.test), (first.train, second.train)):
        np.testing.assert_array_equal(a, b)
    before = len(web.requests)
    data.examples.batch(np.concatenate([second.validation, second.test, second.train]))
    assert len(web.requests) == before


def test_the_split_and_the_fingerprint_stay_when_a_set_moves(parts, web):
    local, there = streamed(parts), remote(web)
    a, b = split(local, 3), split(there, 3)
    np.testing.assert_array_equal(a.test, b.test)
    assert fingerprint(local, a) == fingerprint(there, b)
    np.save(parts / "part-3.npy", np.load(parts / "part-3.npy")[::-1])
    changed = streamed(parts)
    assert fingerprint(changed, split(changed, 3)) != fingerprint(there, b)


def test_connections_may_break_at_any_time(web, pictures):
    for page in web.pages.values():
        page.cut_after, page.cuts, page.piece = 700, -1, 256
    assert len(one_epoch(remote(web), pictures)) > 400
    size = len(web.pages["part-2.npy"].content)
    asked = [asked for path, asked in web.requests if path == "part-2.npy"]
    assert f"bytes=1400-{size - 1}" in asked, "it asks for the rest"


def test_a_connection_that_always_breaks_is_given_up(web):
    data = remote(web)
    rows = Batches(split(data).training, 16, 0).next()
    web.pages["part-2.npy"].cut_after, web.pages["part-2.npy"].cuts = 0, -1
    text = refused(lambda: data.examples.batch(np.arange(600)))
    assert text.startswith(f"cannot read {web.url}/part-2.npy (connection lost; 6 tries)") or "closed early" in text
    assert text.endswith("a run goes on with `narrows resume`")
    web.pages["part-2.npy"].cuts = 0
    data.examples.batch(np.arange(600))
    data.examples.batch(rows)


@pytest.mark.parametrize("more", [0, 10_000])
def test_a_server_that_sends_more_than_was_asked_for_is_cut_off(web, pictures, more):
    for page in web.pages.values():
        page.more = more
    one_epoch(remote(web), pictures)


def test_a_shard_that_changes_on_its_server(web):
    data = remote(web)
    split(data)
    web.pages["part-4.npy"].tag = "new"
    assert refused(data.examples.batch, np.arange(600)).startswith(f"{web.url}/part-4.npy changed on its server while")
    web.pages["part-4.npy"].tag, web.pages["part-4.npy"].content = "", b"x" + web.pages["part-4.npy"].content
    assert "changed on its server" in refused(data.examples.batch, np.arange(600))


def test_a_shard_that_vanishes(web, parts):
    data = remote(web)
    split(data)
    del web.pages["part-4.npy"]
    text = refused(data.examples.batch, np.arange(600))
    assert text == f"{web.url}/part-4.npy does not exist (HTTP 404); check the address"
    data = streamed(parts)
    split(data)
    (parts / "part-4.npy").unlink()
    assert refused(data.examples.batch, np.arange(600)).startswith(f"{parts}/part-4.npy does not exist")


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "may not be read (HTTP 403)"), (404, "does not exist (HTTP 404)"), (503, "(HTTP 503; 3 tries)")],
)
def test_servers_that_refuse(web, status, words):
    web.pages["part-1.npy"].status = status
    assert words in refused(remote, web)


@pytest.fixture
def mute():
    """The address of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_servers_that_never_answer(mute, monkeypatch):
    monkeypatch.setattr(transfer, "FIRST_ANSWER", 0.2)
    address = mute + "/part-{0..99}.npy"
    assert refused(load, address) == (
        f"{address}: its server could not be reached within 0.2 s; check the address and the network"
    )
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()
    for name, value in (("ENDPOINT_URL", mute), ("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "SECRET")):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert refused(load, "s3://set/*.npy") == (
        "s3://set/*.npy: its server could not be reached within 0.2 s; check the address, AWS_ENDPOINT_URL and the "
        "network"
    )
    s3fs.S3FileSystem.clear_instance_cache()


def test_servers_without_ranges(web):
    web.pages["part-1.npy"].ranges = False
    assert "sends whole files only (no Range requests)" in refused(remote, web)


def test_secrets_are_refused_and_not_shown(web):
    for address in (f"{web.url}/a.npy?sig=SECRET", f"{web.url.replace('//', '//me:SECRET@')}/a.npy"):
        text = refused(load, address)
        assert "SECRET" not in text
        assert "would be stored with the run" in text


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert refused(load, "gs://b/*.npy") == "reading gs:// needs another package: pip install 'narrows[remote]'"


def test_addresses_of_nothing(tmp_path):
    assert "web servers have no lists of files" in refused(load, "https://127.0.0.1:9/part-*.npy")
    assert refused(load, "http://127.0.0.1:9/a.npy").startswith("cannot read http://127.0.0.1:9/a.npy (Connection ref")
    assert "use s3://, gs://, https:// or hf://" in refused(load, "nothing://x/a.npy")
    assert "does not exist" in refused(load, "memory://none/a.npy")
    assert "no shards match" in refused(load, f"{tmp_path}/*.npy", stream=True)


def test_shards_that_do_not_belong_together(web, parts):
    web.pages["part-5.npy"].content = (parts / "part-5.npy").read_bytes().replace(b"(60, 6, 5, 3)", b"(60, 5, 6, 3)")
    text = refused(remote, web)
    assert (
        f"{web.url}/part-5.npy holds rows of (5, 6, 3) uint8, and {web.url}/part-0.npy holds rows of (6, 5, 3)" in text
    )
    web.pages["part-5.npy"].content = (parts / "part-5.npy").read_bytes().replace(b"(60, 6, 5, 3)", b"(99999, 6, 5)")
    assert "is damaged or not a .npy file" in refused(remote, web)
    web.pages["part-5.npy"].content = b"<html>not here</html>"
    assert f"{web.url}/part-5.npy: the file is damaged or not a .npy file" in refused(remote, web)


def test_values_are_checked_as_they_arrive(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(8):
        np.save(tmp_path / f"{i}.npy", rng.random((60, 5)))
    data = streamed(tmp_path, cache_size=10_000)
    split(data)
    bad = np.load(tmp_path / "5.npy")
    bad[:, 2] = np.nan
    path, facts = tmp_path / "5.npy", (tmp_path / "5.npy").stat()
    np.save(path, bad)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert f"{path}: 60 of 300 values are NaN or infinite" in refused(data.examples.batch, np.arange(480))
    assert "outside [0, 1]" in refused(lambda: split(streamed(scaled(tmp_path, 2), cache_size=10_000)))
    split(streamed(tmp_path / "scaled", cache_size=10_000, values="any"))


def scaled(folder, factor):
    (folder / "scaled").mkdir()
    for i in range(8):
        np.save(folder / "scaled" / f"{i}.npy", np.random.default_rng(i).random((60, 5)) * factor)
    return folder / "scaled"


@pytest.mark.parametrize("size", ["2XB", "0", "-1GB", "", "nan"])
def test_sizes_of_nothing(parts, size):
    assert refused(load, parts, stream=True, cache_size=size).startswith("cache_size must be a size such as 2GB")


def test_options_that_do_not_fit(parts):
    assert "the largest shard takes" in refused(lambda: split(streamed(parts, cache_size="10kB")))
    assert "is for shards that are streamed" in refused(load, parts, split_by="shard")
    assert "columns is for tables" in refused(load, parts, stream=True, columns="a")
    assert "must be one of row, shard" in refused(load, parts, stream=True, split_by="plate")


def test_a_disk_with_less_room_than_the_cache_may_take(parts, monkeypatch):
    monkeypatch.setattr("narrows._util.room.free_disk", lambda folder: 1000)
    assert "and 1,000 bytes are free" in refused(split, streamed(parts))


def test_tables_in_parquet(tmp_path, web):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    values = np.random.default_rng(0).normal(5, 2, (600, 3))
    for i, part in enumerate(np.split(values, 8)):
        buffer = io.BytesIO()
        table = {"name": ["x"] * 75, **{name: part[:, j] for j, name in enumerate("abc")}}
        parquet.write_table(pyarrow.table(table), buffer, row_group_size=20)
        web.pages[f"t{i}.parquet"] = type(web.pages["part-0.npy"])(buffer.getvalue(), cut_after=300, cuts=2)
    address = f"{web.url}/t{{0..7}}.parquet"
    assert "t0.parquet: column 'name' holds text, not numbers ('x' in row 1)" in refused(load, address)
    data = load(address, columns="c,a", cache_size="20kB")
    assert (data.columns, data.values, data.examples.shape) == (("c", "a"), "any", (2,))
    for index in (split(data).test, Batches(split(data).training, 64, 0).next(), np.arange(600)):
        np.testing.assert_array_equal(data.exact.batch(index).numpy(), values[index][:, [2, 0]])


def test_two_processes_share_a_cache(parts, pictures, tmp_path):
    """Two streams of the same set, in step as the processes of one run are."""
    one, two = streamed(parts), streamed(parts)
    first, second = (Batches(split(data).training, 32, 0) for data in (one, two))
    for _ in range(2 * first.per_epoch):
        index = first.next()
        assert torch.equal(one.examples.batch(index), two.examples.batch(second.next()))
    assert sum(path.stat().st_size for path in cached(tmp_path)) <= CACHE


def test_leftovers_of_killed_processes_go(parts, tmp_path):
    other = tmp_path / "cache" / "streams" / "another"
    other.mkdir(parents=True)
    (other / "000001.npy").write_bytes(b"x")
    (other / ".000002.npy.part").write_bytes(b"x")
    data = streamed(parts)
    assert not other.exists()
    mine = tmp_path / "cache" / "streams" / data.stream.version
    mine.mkdir(parents=True, exist_ok=True)
    (mine / "000099.npy").write_bytes(b"x")
    data.examples.batch(Batches(split(data).training, 32, 0).next())
    assert not (mine / "000099.npy").exists()


def test_transfers_end_when_they_are_not_needed_any_more(web):
    data = remote(web)
    file = data.stream.shards[2].file
    ended = threading.Event()
    ended.set()
    assert list(transfer.pieces(file, ended=ended)) == []


def test_only_the_bytes_that_are_asked_for_are_passed_on():
    content = bytes(range(256)) * 20
    with LocalServer({"a.bin": content}) as server:
        server.pages["a.bin"].more = 5
        source, url = transfer.Http(), f"{server.url}/a.bin"
        file = transfer.File(source, url, url, *transfer.stat(source, url, url))
        for start, stop in ((0, 1), (7, 300), (5119, 5120), (5, 5)):
            assert transfer.read_range(file, start, stop) == content[start:stop]
