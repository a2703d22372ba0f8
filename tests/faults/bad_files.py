"""Files and folders that no command can use, and a few good ones to use them with. Names say what is wrong."""

import csv
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from commands import SMALL, small
from faults.bad_commands import SETTINGS
from narrows.cli import main

GOOD = np.random.default_rng(0).random((200, 6)).astype(np.float32)


def make_files(folder: Path) -> None:
    """Write everything into an empty folder; two short trainings make the runs."""
    _arrays(folder)
    _archives(folder)
    _tables(folder)
    _pictures(folder)
    _configs(folder)
    _paths(folder)
    _runs(folder)


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _with(value: float, dtype: type = np.float32) -> np.ndarray:
    array = GOOD.astype(dtype)
    array[7, 2] = value
    return array


def _arrays(folder: Path) -> None:
    good = _npy(GOOD)
    arrays = {
        "good": GOOD,
        "wide": np.ones((200, 9), np.float32),
        "squares": np.random.default_rng(0).integers(0, 256, (200, 16, 16), np.uint8),
        "few": GOOD[:9],
        "nan": _with(np.nan),
        "infinite": _with(np.inf),
        "outside": _with(3.5),
        "negative": _with(-0.5),
        "huge": GOOD * np.float32(1e30),
        "double_huge": GOOD.astype(np.float64) * 1e300,
        "int64": GOOD.astype(np.int64),
        "complex": GOOD.astype(np.complex64),
        "text": np.full((200, 6), "a"),
        "dates": np.zeros((200, 6), "datetime64[s]"),
        "records": np.zeros(200, [("a", "f4"), ("b", "f4")]),
        "objects": np.array([{}] * 200, object),
        "rank0": np.float32(3.0),
        "rank1": GOOD[:, 0],
        "rank5": np.zeros((200, 2, 2, 2, 2), np.float32),
        "no_rows": GOOD[:0],
        "no_columns": GOOD[:, :0],
        "long_channels": np.zeros((200, 16, 16, 7), np.uint8),
        "codes": np.zeros((5, 4), np.float32),
        "codes_nan": np.full((5, 4), np.nan, np.float32),
        "codes_wide": np.zeros((5, 40), np.float32),
        "codes_none": np.zeros((0, 4), np.float32),
        "codes_text": np.full((5, 4), "a"),
    }
    for name, array in arrays.items():
        (folder / f"{name}.npy").write_bytes(_npy(np.asarray(array)))
    (folder / "empty.npy").write_bytes(b"")
    (folder / "words.npy").write_text("these are words")
    (folder / "truncated.npy").write_bytes(good[: len(good) // 2])
    (folder / "only_magic.npy").write_bytes(good[:8])
    (folder / "header.npy").write_bytes(good.replace(b"(200, 6)", b"(200, 6,"))
    (folder / "negative_shape.npy").write_bytes(good.replace(b"(200, 6)", b"(-20, 6)"))
    (folder / "claims_more.npy").write_bytes(good.replace(b"(200, 6)", b"(999, 9)"))
    (folder / "data.xyz").write_bytes(good)
    (folder / "no_suffix").write_bytes(good)
    (folder / "data.pkl").write_bytes(b"\x80\x04N.")
    (folder / "data.pt").write_bytes(b"PK\x03\x04")


def _archives(folder: Path) -> None:
    np.savez(folder / "two.npz", first=GOOD, second=GOOD)
    np.savez(folder / "one.npz", x=GOOD)
    np.savez(folder / "nothing.npz")
    whole = (folder / "one.npz").read_bytes()
    (folder / "truncated.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.npz").write_bytes(b"")
    (folder / "words.npz").write_text("these are words")
    with zipfile.ZipFile(folder / "strange.npz", "w") as file:
        file.writestr("x.npy", "not an array")
    with zipfile.ZipFile(folder / "notes.npz", "w") as file:
        file.writestr("readme.txt", "no array here")
    with h5py.File(folder / "two.h5", "w") as file:
        file["first"], file["second"] = GOOD, GOOD
        file["word"], file.create_group("group")["inside"] = "a text", GOOD
    with h5py.File(folder / "nothing.h5", "w"):
        pass
    (folder / "empty.h5").write_bytes(b"")
    (folder / "words.h5").write_text("these are words")
    whole = (folder / "two.h5").read_bytes()
    (folder / "truncated.h5").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "words.parquet").write_text("these are words")
    (folder / "truncated.parquet").write_bytes(b"PAR1" + bytes(40) + b"PAR1")


def _tables(folder: Path) -> None:
    with (folder / "good.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "weight", "name"])
        writer.writerows([[f"{row[0]:.4f}", f"{row[1]:.4f}", "x"] for row in GOOD])
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["height", "subject", "trio", "hole", "weight", "minus", "none", "colour", "born", "name", "nil"]
        )
        for i, row in enumerate(GOOD):
            hole, minus, colour = "" if i == 7 else i // 4, -1 if i == 7 else 1, ("red", "blue")[i % 2]
            writer.writerow(
                [f"{row[0]:.4f}", f"s{i // 4}", i % 3, hole, 1, minus, 0, colour, "2000-01-01", f"p{i}", ""]
            )
    tables = {
        "empty": "",
        "blank": "\n\n\n",
        "only_header": "a,b,c\n",
        "ragged": "a,b\n1,2\n3,4,5\n" * 100,
        "short": "a,b\n" + "1,2\n" * 99 + "3\n",
        "texts": "a,b\n" + "x,y\n" * 200,
        "gaps": "a,b\n" + "1,\n" * 200,
        "comma_decimals": "a;b\n" + "1,5;2,5\n" * 200,
        "overflow": "a,b\n" + "1e400,2\n" * 200,
        "not_numbers": "a,b\n" + "nan,2\n" * 200,
        "same_names": "a,a\n" + "1,2\n" * 200,
        "open_quote": 'a,b\n1,"2\n' + "3,4\n" * 200,
        "digits": "a,b\n" + f"{'9' * 400},2\n" * 200,
    }
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content)
    (folder / "utf16.csv").write_bytes(("a,b\n" + "1,2\n" * 200).encode("utf-16"))
    (folder / "zeros.csv").write_bytes(b"a,b\n" + b"1,\0\n" * 200)
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 40)
    (folder / "words.csv.gz").write_text("not compressed")


def _pictures(folder: Path) -> None:
    for name in ("pictures_none", "pictures_broken", "pictures_sizes", "pictures_notes"):
        (folder / name).mkdir()
    for number in range(130):
        Image.new("L", (16, 16), number).save(folder / "pictures_broken" / f"{number}.png")
        Image.new("L", (16 + number % 2, 16), number).save(folder / "pictures_sizes" / f"{number}.png")
    (folder / "pictures_broken" / "x.png").write_bytes(b"no picture")
    (folder / "pictures_notes" / "notes.txt").write_text("no picture")


def _configs(folder: Path) -> None:
    configs: dict[str, str | bytes] = {
        "empty.json": "",
        "half.json": '{"tau": 1',
        "list.json": "[1, 2]",
        "number.json": "3",
        "null.json": "null",
        "twice.json": '{"tau": 1, "tau": 2, "n": 0}',
        "utf16.json": '{"tau": 1}'.encode("utf-16"),
        "latin.json": '{"data": "é"}'.encode("latin-1"),
        "bytes.json": bytes(range(256)),
        "nan.json": '{"tau": NaN}',
        "inf.json": '{"tau": Infinity}',
        "unknown.json": '{"taw": 1}',
        "strange.json": '{"": 1}',
        "deep.json": "[" * 100_000,
        "deep.toml": "a = " + "[" * 100_000,
        "digits.json": f'{{"tau": {"9" * 400}}}',
        "many_digits.json": f'{{"n": {"9" * 5_000}}}',
        "digits.toml": f"aim = {'9' * 400}",
        "exponent.json": '{"tau": 1e400}',
        "fraction.json": '{"n": 2.5}',
        "fraction_text.json": '{"n": "2.5e0"}',
        "bom.json": b'\xef\xbb\xbf{"n": 0}',
        "long_name.json": f'{{"{"x" * 100_000}": 1}}',
        "long_text.json": f'{{"recipe": "{"x" * 100_000}"}}',
        "escape_value.json": '{"recipe": "\\u001b[31m"}',
        "escape.json": '{"\\u001b[31m": 1}',
        "half.toml": "tau = ",
        "words.toml": "not = = what it says",
        "section.toml": "[train]\ntau = 1\n",
        "twice.toml": "n = 1\nn = 2\n",
        "utf16.toml": "tau = 1\n".encode("utf-16"),
        "date.toml": "tau = 2020-01-01\n",
        "sweep.toml": "tau = [1, 2]\n",
        "sweep_unknown.toml": "sead = [1, 2]\n",
        "sweep_empty.toml": "tau = 1\nseed = []\n",
        "sweep_nested.toml": "seed = [[1, 2]]\n",
        "sweep_value.toml": "tau = 1\nseed = [0, -1]\n",
        "sweep_pair.toml": "tau = [1, 2]\nexplained = 0.5\n",
        "sweep_twice.toml": "tau = 1\nseed = [0, 1, 0]\n",
        "sweep_zip.toml": 'tau = [1, 2]\nseed = [0, 1, 2]\n[sweep]\ncombine = "zip"\n',
        "sweep_combine.toml": 'tau = 1\n[sweep]\ncombine = "sum"\n',
        "sweep_entry.toml": "tau = 1\n[sweep]\ncpu = 1\n",
        "sweep_place.toml": "tau = 1\n[sweep]\nseed = [1, 2]\n",
        "sweep_top.toml": "tau = 1\ncpus = 2\n",
        "sweep_table.toml": "tau = 1\nsweep = 3\n",
        "sweep_many.toml": "".join(f"{name} = {list(range(100))}\n" for name in ("seed", "split_seed", "n")),
        "sweep_gpus.toml": "tau = 1\n[sweep]\ngpus = 1\n",
        "sweep_taus.toml": "tau = 1\n[sweep]\ntaus = [1, 2]\n",
        "sweep_taus_twice.toml": "[sweep]\ntaus = [1, 2, 1]\n",
        "sweep_nothing.toml": "# to be written\n",
        "bytes.toml": bytes(range(128, 256)),
    }
    (folder / "settings").mkdir()
    for name, content in {**configs, **{name: content for name, (content, _) in SETTINGS.items()}}.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def _paths(folder: Path) -> None:
    (folder / "folder.npy").mkdir()
    (folder / "folder.json").mkdir()
    (folder / "dangling.npy").symlink_to(folder / "nowhere.npy")
    (folder / "circle.npy").symlink_to(folder / "circle.npy")
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "dangling").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.npy")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.npy"))).write_bytes(b"not an array")
    (folder / "in the way").write_text("a file")


def _runs(folder: Path) -> None:
    """A run, a front, and copies of the run with something wrong."""
    run, front = folder / "run", folder / "front"
    arguments = [str(folder / "good.npy"), "--steps", "12", *SMALL]
    assert main(["train", *arguments, "--tau", "0.5", "--out", str(run)]) == 0
    fast = [str(folder / "good.npy"), "--steps", "30", *small(recipe="fast")]
    assert main(["front", *fast, "--taus", "0.4,0.5", "--out", str(front)]) == 0
    model, config = (run / "model.safetensors").read_bytes(), json.loads((run / "config.json").read_text())
    damages: dict[str, tuple[str, str | bytes | None]] = {
        "run_no_model": ("model.safetensors", None),
        "run_half_model": ("model.safetensors", model[: len(model) // 2]),
        "run_empty_model": ("model.safetensors", b""),
        "run_text_model": ("model.safetensors", "these are words"),
        "run_half_result": ("result.json", '{"n": 4'),
        "run_list_result": ("result.json", "[]"),
        "run_half_config": ("config.json", '{"tau": 1'),
        "run_no_config": ("config.json", None),
        "run_unknown_setting": ("config.json", json.dumps({**config, "taw": 1})),
        "run_moved_data": ("config.json", json.dumps({**config, "data": "/nowhere/x.npy"})),
        "run_other_data": ("config.json", json.dumps({**config, "data": str(folder / "wide.npy")})),
        "run_half_metrics": ("metrics.csv", "step,error\n1,2\n"),
    }
    for name, (file, content) in damages.items():
        shutil.copytree(run, folder / name)
        (folder / name / file).unlink()
        if content is not None:
            (folder / name / file).write_bytes(content.encode() if isinstance(content, str) else content)
    shutil.copytree(run, folder / "run_not_ended")
    for name in ("result.json", "model.safetensors"):
        (folder / "run_not_ended" / name).unlink()
    shutil.copytree(folder / "run_not_ended", folder / "run_no_checkpoint")
    shutil.rmtree(folder / "run_no_checkpoint" / "checkpoints")
    (folder / "front_damaged").mkdir()
    (folder / "front_damaged" / "front.json").write_text('{"taus": "many"}')
    (folder / "front_half").mkdir()
    (folder / "front_half" / "front.json").write_text("{")
    (folder / "experiment").mkdir()
    (folder / "experiment" / "experiment.json").write_text('{"experiment": "front", "budget": 0.5, "width": 32}')
    (folder / "experiment_damaged").mkdir()
    (folder / "experiment_damaged" / "experiment.json").write_text("{")
    (folder / "nothing").mkdir()
