"""Filling in files: every field that was not empty is copied as it stands."""

import csv

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from commands import small
from narrows.cli import main


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    rng = np.random.default_rng(0)
    h = rng.normal(size=(200, 2))
    frame = pd.DataFrame(
        {
            "country": np.where(h[:, 1] > 0, "NA", "Côte, d'Ivoire"),
            "x": h[:, 0].round(3),
            "n": pd.array(np.rint(5 * h[:, 1]).astype(int), dtype="Int64"),
            "colour": np.where(h[:, 0] > 0.3, "red", "blue"),
            "ok": pd.array(h.sum(1) > 0, dtype="boolean"),
            "born": "2000-01-01",
        }
    )
    for place, name in enumerate(["x", "n", "colour", "ok"]):
        frame.loc[3 * place : 3 * place + 4, name] = pd.NA if name != "x" else np.nan
    frame.to_csv(folder / "t.csv", index=False)
    coded = pd.Categorical(frame["colour"], categories=["red", "blue"], ordered=True)
    frame.assign(colour=coded).to_parquet(folder / "t.parquet")
    words = ["--columns", "x,n,colour,ok", "--categories", "auto", "--missing", "mask", "--explained", "0.3"]
    for ending in ("csv", "parquet"):
        data, run = str(folder / f"t.{ending}"), str(folder / f"run_{ending}")
        assert main(["train", data, *words, *small(recipe="fast"), "--steps", "20", "--out", run]) == 0
    return folder


def test_a_csv_file_is_filled_in(folder, capsys):
    words = [str(folder / "run_csv"), str(folder / "t.csv"), "-o", str(folder / "full.csv")]
    assert main(["impute", *words]) == 0
    assert "20 values filled in, in 200 rows" in capsys.readouterr().out
    before, after = rows_of(folder / "t.csv"), rows_of(folder / "full.csv")
    assert before[0] == after[0]
    for old, new in zip(before[1:], after[1:], strict=True):
        assert all(one in ("", other) for one, other in zip(old, new, strict=True))
        assert int(new[2]) == float(new[2])
        assert new[3] in ("red", "blue")
        assert new[4] in ("True", "False")
    assert {row[0] for row in after[1:]} == {"NA", "Côte, d'Ivoire"}


def test_a_parquet_file_is_filled_in_with_its_types(folder):
    assert main(["impute", str(folder / "run_parquet"), "-o", str(folder / "full.parquet")]) == 0
    before, after = (parquet.read_table(folder / name) for name in ("t.parquet", "full.parquet"))
    assert after.schema.equals(before.schema)
    assert sum(column.null_count for column in after.columns) == 0
    one, other = before.to_pandas(), after.to_pandas()
    assert (one.dtypes == other.dtypes).all()
    for name in one:
        seen = one[name].notna()
        assert one[name][seen].tolist() == other[name][seen].tolist()


def test_codes_of_both_files_are_the_same(folder):
    codes = []
    for ending in ("csv", "parquet"):
        out = folder / f"{ending}.npy"
        assert main(["encode", str(folder / "run_csv"), str(folder / f"t.{ending}"), "-o", str(out)]) == 0
        codes.append(np.load(out))
    np.testing.assert_array_equal(*codes)


BAD = {
    "another ending": (["t.csv", "full.npy"], "a table is written as it was read; give --out the ending .csv"),
    "a column that is gone": (["less.csv", "full.csv"], "less.csv has no column 'x'"),
    "an unseen category": (["pink.csv", "full.csv"], "column 'colour' has 'pink' in row 1, which is none of the"),
    "texts for numbers": (["words.csv", "full.csv"], "column 'x' must hold numbers, as in the table that the model"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_filled_in_is_named(folder, case, capsys):
    frame = pd.read_csv(folder / "t.csv", keep_default_na=False)
    frame.drop(columns="x").to_csv(folder / "less.csv", index=False)
    frame.assign(colour="pink").to_csv(folder / "pink.csv", index=False)
    frame.assign(x="red").to_csv(folder / "words.csv", index=False)
    (source, out), text = BAD[case]
    out = folder / f"bad_{out}"
    assert main(["impute", str(folder / "run_csv"), str(folder / source), "-o", str(out)]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert text in line
    assert not out.exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_without_any_value_is_filled_in_as_it_was_trained(folder, ending):
    frame = pd.read_csv(folder / "t.csv").head(20).assign(colour=None, n=None, ok=None)
    source, out = folder / f"empty.{ending}", folder / f"not_empty.{ending}"
    frame.to_csv(source, index=False) if ending == "csv" else frame.to_parquet(source)
    assert main(["impute", str(folder / f"run_{ending}"), str(source), "-o", str(out)]) == 0
    full = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    assert set(full["colour"]) <= {"red", "blue"}
    assert full["n"].dtype == np.int64
    assert set(full["ok"].astype(str).str.lower()) <= {"true", "false"}


def test_a_table_is_not_written_over_itself(folder, capsys):
    source = folder / "t.csv"
    before = source.read_bytes()
    for words in ([str(source)], []):
        assert main(["impute", str(folder / "run_csv"), *words, "-o", str(source)]) == 2
        assert "is the table that is read; give --out another name" in capsys.readouterr().err
        assert source.read_bytes() == before
