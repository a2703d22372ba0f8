"""A real S3 server (moto's) on loopback, through s3fs, as a user has it: by the variables of the environment."""

import fsspec
import numpy as np
import pytest
import torch

from narrows.data import Batches, load, split
from refusals import refused

moto = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")


@pytest.fixture
def bucket(parts, monkeypatch):
    """The shards in a bucket."""
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "SECRET",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    fs = s3fs.S3FileSystem()
    fs.mkdir("set")
    for path in parts.iterdir():
        fs.put(str(path), f"set/parts/{path.name}")
    yield fs
    fs.rm("set", recursive=True)  # moto's buckets outlive its server
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_shards_in_a_bucket(bucket, parts, pictures, monkeypatch):
    on_disk = load(parts)
    for address in ("s3://set/parts/*.npy", "s3://set/parts", "s3://set/parts/part-{0..7}.npy"):
        data = load(address, cache_size=46_000)
        assert (data.name, len(data.examples)) == ("parts", 600)
        splits = split(data)
        index = np.concatenate([splits.test, Batches(splits.training, 32, 0).next()])
        assert torch.equal(data.examples.batch(index), on_disk.examples.batch(index))
    np.testing.assert_array_equal(splits.test, split(load(parts, stream=True)).test)

    monkeypatch.setenv("NARROWS_CACHE", str(parts.parent / "another cache"))
    data = load("s3://set/parts/*.npy", cache_size=46_000)
    split(data)
    bucket.pipe("set/parts/part-3.npy", b"another shard")
    assert "part-3.npy changed on its server while it was used" in refused(data.examples.batch, np.arange(600))
    bucket.rm("set/parts/part-3.npy")
    assert "set/parts/part-3.npy does not exist" in refused(data.examples.batch, np.arange(600))

    assert refused(load, "s3://none/*.npy") == "s3://none/*.npy does not exist; check the bucket and the path"
    assert "no shards match s3://set/other-*.npy" in refused(load, "s3://set/other-*.npy")
    assert "s3://set/parts/part-9.npy does not exist" in refused(load, "s3://set/parts/part-9.npy")


def test_a_public_bucket_needs_no_credentials(bucket, pictures, monkeypatch, tmp_path):
    for path in bucket.ls("set/parts"):
        bucket.chmod(path, "public-read")
    _forget_credentials(monkeypatch, tmp_path)
    assert "no credentials were found" in refused(load, "s3://set/parts/*.npy")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.delitem(fsspec.config.conf, "s3", raising=False)
    monkeypatch.setitem(fsspec.config.conf, "s3", {})
    fsspec.config.set_conf_env(fsspec.config.conf, {"FSSPEC_S3_ANON": "true"})  # as fsspec does when it is loaded
    data = load("s3://set/parts/*.npy", cache_size=46_000)
    assert len(split(data).test) > 0
    assert len(data.examples) == len(pictures)


def _forget_credentials(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    s3fs.S3FileSystem.clear_instance_cache()


def test_no_credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    _forget_credentials(monkeypatch, tmp_path)
    for address in ("s3://set/parts/*.npy", "s3://set/parts/part-0.npy"):
        text = refused(load, address)
        assert "no credentials were found" in text
        assert "FSSPEC_S3_ANON=true if the bucket is public" in text
    s3fs.S3FileSystem.clear_instance_cache()
