"""Data files: arrays, archives, tables, HDF5, images, and the formats of the named sets."""

import csv
import gzip
import io
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import narrows
from faults.mutators import (
    mutate_bytes,
    mutate_csv,
    mutate_gzip,
    mutate_image,
    mutate_npy,
    mutate_zip,
)
from faults.target import Target
from narrows.data.named.formats import members, read_idx

ROWS, COLUMNS = 40, 4


def numbers() -> np.ndarray:
    """Return a small table, (ROWS, COLUMNS) float32."""
    return np.linspace(-1, 1, ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def pixels(*shape: int) -> np.ndarray:
    """Return bytes that are not all the same."""
    return (np.arange(np.prod(shape)) * 37 % 251).astype(np.uint8).reshape(shape)


def load_and_look(path: Path, rng: Random) -> None:
    """Load a file in one of the ways that options offer, and take examples from it."""
    values = "any" if path.suffix in (".npy", ".npz", ".h5") else "unit"
    data = narrows.load(f"{path}::x" if path.name == "odd.h5" and rng.random() < 0.5 else path, values)
    index = np.arange(min(8, len(data.examples)))
    batch = data.examples.batch(index)
    assert tuple(batch.shape) == (len(index), *data.examples.shape)
    data.exact.batch(index[:1])


def _npy(folder: Path) -> None:
    np.save(folder / "table.npy", numbers())
    np.save(folder / "images.npy", pixels(ROWS, 6, 5))
    np.save(folder / "colour.npy", pixels(20, 6, 5, 3) / 255)
    np.save(folder / "columns.npy", np.asfortranarray(numbers().astype(np.float64)))


def _npz(folder: Path) -> None:
    np.savez(folder / "stored.npz", x=numbers())
    np.savez_compressed(folder / "deflated.npz", x=pixels(ROWS, 6, 5), labels=np.arange(ROWS))
    np.savez(folder / "columns.npz", np.asfortranarray(numbers()))


def _hdf5(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "plain.h5", "w") as file:
        file["images"] = pixels(ROWS, 6, 5)
    with h5py.File(folder / "chunked.h5", "w", libver="latest") as file:
        group = file.create_group("group")
        group.create_dataset("x", data=numbers(), chunks=(7, COLUMNS), compression="gzip", shuffle=True)
        file["labels"] = np.arange(ROWS)
    with h5py.File(folder / "virtual.h5", "w") as file:
        file["one"], file["two"] = numbers()[:20], numbers()[20:]
        layout = h5py.VirtualLayout((ROWS, COLUMNS), np.float32)
        for at, name in enumerate(("one", "two")):
            layout[20 * at : 20 * at + 20] = h5py.VirtualSource(".", name, (20, COLUMNS))
        file.create_virtual_dataset("x", layout)


def _odd(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "odd.h5", "w") as file:
        file["x"] = numbers()


def _make_odd(rng: Random, content: bytes, others: object) -> bytes:
    """Return a valid HDF5 file that declares something odd: shapes, types, names, links, storage elsewhere."""
    import h5py

    shapes = ((40,), (40, 4), (0, 4), (10**7, 10**3), (2**40, 2), (2**20, 2**20, 3), (3, 1), (40, 300, 300))
    kinds = ("f4", "f4", "f8", ">f4", "u1", "i8", "c8", "S5", "?", "f2", "V3", [("a", "f4"), ("b", "i2")])
    shape, kind = rng.choice(shapes), np.dtype(rng.choice(kinds))
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(Path(folder) / "odd.h5", "w", libver=rng.choice(("earliest", "latest"))) as file:
            if rng.random() < 0.7:
                fill = rng.choice((None, 0, np.nan)) if kind.kind == "f" else None
                chunks = tuple(min(side or 1, 8) for side in shape)
                file.create_dataset("x", shape, kind, chunks=chunks, maxshape=(None, *shape[1:]), fillvalue=fill)
            else:
                elsewhere = [(rng.choice(("/etc/hostname", "raw", "/dev/zero")), 0, 640)]
                file.create_dataset("x", (40, 4), "f4", external=elsewhere)
            if rng.random() < 0.5:
                _add_odd(rng, file)
        return (Path(folder) / "odd.h5").read_bytes()


def _add_odd(rng: Random, file: Any) -> None:
    """Add a link or another array."""
    import h5py

    key = rng.choice(("data", "images", "\x1b[31mred", "a\nb", "k" * 5_000, "é"))
    elsewhere = rng.choice(("/etc/hostname", "../other.h5", "odd.h5", "gone.h5"))
    kind = rng.randrange(4)
    if kind == 0:
        file[key] = h5py.ExternalLink(elsewhere, "x")
    elif kind == 1:
        file.create_group("a").create_group("b")["loop"] = h5py.SoftLink("/a")
        file[key] = h5py.SoftLink(f"/{key}")
    elif kind == 2:
        layout = h5py.VirtualLayout((ROWS, COLUMNS), np.float32)
        layout[:] = h5py.VirtualSource(elsewhere, "x", (ROWS, COLUMNS))
        file.create_virtual_dataset(key, layout)
    else:
        file[key] = numbers()


def _tables(folder: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["height", "weight", "age, in years", "x"])
    writer.writerows(numbers().tolist())
    (folder / "table.csv").write_text(text.getvalue())
    (folder / "bare.csv").write_text("\n".join(",".join(map(str, row)) for row in numbers().tolist()) + "\n")


def _packed_tables(folder: Path) -> None:
    text = "\n".join("\t".join(map(str, row)) for row in [["a", "b", "c", "d"], *numbers().tolist()]) + "\n"
    (folder / "table.tsv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _parquet(folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({name: numbers()[:, place] for place, name in enumerate("abcd")})
    parquet.write_table(table, folder / "snappy.parquet")
    parquet.write_table(table, folder / "groups.parquet", row_group_size=9, compression="none", use_dictionary=False)
    table = table.append_column("e", pa.array([1.0, None] * (ROWS // 2)).fill_null(2.0).dictionary_encode())
    parquet.write_table(table, folder / "dictionary.parquet", compression="gzip")


def _images(folder: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels(12, 10)).save(folder / "a.png")
    Image.fromarray(pixels(12, 10, 3)).save(folder / "b.jpg", quality=90)
    Image.fromarray(pixels(12, 10, 4)).save(folder / "c.png", pnginfo=None, dpi=(72, 72))
    Image.fromarray(pixels(12, 10, 3)).save(folder / "d.webp")
    Image.fromarray(pixels(12, 10)).convert("P").save(folder / "e.png", transparency=3)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels(10, 12)).save(folder / "f.jpeg", exif=exif)


def _read_images(folder: Path, victim: Path, rng: Random) -> None:
    data = narrows.load(folder, image_size=rng.choice((None, 8)), skip_broken=rng.random() < 0.5)
    data.examples.batch(np.arange(len(data.examples)))


def _idx(folder: Path) -> None:
    plain = b"\0\0\x08\x03" + np.array((ROWS, 6, 5), ">u4").tobytes() + pixels(ROWS, 6, 5).tobytes()
    (folder / "images-idx3-ubyte").write_bytes(plain)
    (folder / "images-idx3-ubyte.gz").write_bytes(gzip.compress(plain, mtime=0))


def _mutate_idx(rng: Random, content: bytes, others: object) -> bytes:
    return (mutate_gzip if content.startswith(b"\x1f\x8b") else mutate_bytes)(rng, content, ())


def _archive(folder: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin", "data/cars/list.txt"):
            member = tarfile.TarInfo(name)
            member.size = 3_074 * 2
            archive.addfile(member, io.BytesIO(pixels(member.size).tobytes()))
    (folder / "set.tar.gz").write_bytes(gzip.compress(made.getvalue(), mtime=0))


def _read_archive(folder: Path, victim: Path, rng: Random) -> None:
    with members(victim) as files:
        for _, _, file in files:
            file.read()


def _hub(folder: Path) -> None:
    """Write sets as the datasets library does: pictures with labels, lists of numbers, and a table."""
    import datasets
    from PIL import Image

    features = datasets.Features({"picture": datasets.Image(), "animal": datasets.ClassLabel(names=["cat", "dog"])})
    pictures = [Image.fromarray(image) for image in pixels(ROWS, 12, 10)]
    sets = {
        "pictures": datasets.Dataset.from_dict({"picture": pictures, "animal": [0, 1] * (ROWS // 2)}, features),
        "lists": datasets.Dataset.from_dict({"x": numbers().tolist()}),
        "table": datasets.Dataset.from_dict({name: numbers()[:, place] for place, name in enumerate("abcd")}),
    }
    for name, rows in sets.items():
        (folder / name).mkdir()
        rows.to_parquet(folder / name / "train.parquet")
    (folder / "text").mkdir()
    for split in ("train", "test"):
        sets["table"].to_csv(folder / "text" / f"{split}.csv", index=False)


def _read_hub(folder: Path, victim: Path, rng: Random) -> None:
    data = narrows.load(f"hf:{victim.parent}", "any")
    data.examples.batch(np.arange(min(8, len(data.examples))))


def _any(folder: Path, victim: Path, rng: Random) -> None:
    load_and_look(victim, rng)


TARGETS = (
    Target("npy", _npy, _any, mutate_npy),
    Target("npz", _npz, _any, mutate_zip),
    Target("hdf5", _hdf5, _any),
    Target("hdf5-odd", _odd, _any, _make_odd),
    Target("csv", _tables, _any, mutate_csv),
    Target("tsv.gz", _packed_tables, _any, mutate_gzip),
    Target("parquet", _parquet, _any),
    Target("images", _images, _read_images, mutate_image),
    Target("idx", _idx, lambda folder, victim, rng: read_idx(victim), _mutate_idx),
    Target("tar.gz", _archive, _read_archive, mutate_gzip),
    *([Target("hub", _hub, _read_hub)] if find_spec("datasets") else ()),
)
