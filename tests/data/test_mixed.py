"""Tables with categories: what is read comes back, and a column costs 1 if only its frequencies are known."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

from narrows import NarrowsError, from_table, load
from narrows.data.mixed import Column, by_column, collapse, column_of_values, expand, stored_order, value_names
from narrows.data.readers.frames import FrameKind, to_frame
from narrows.networks import NetworkConfig, build
from narrows.objective import mixed_values

TEXT = """id,height,colour,ok,count
p1,1.5,red,true,3
p2,,blue,false,4
p3,1.2,,true,
p4,1.9,red,,7
p5,1.4,blue,true,1
p6,1.1,red,false,0
"""


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(TEXT)
    return path


def test_a_file_is_read_with_a_value_for_each_level(people):
    data = load(people, columns="colour,height,ok,count", categories="auto", missing="mask")
    assert data.columns == ("height", "count", "colour=blue", "colour=red", "ok=false", "ok=true")
    assert [column.kind for column in data.table] == ["category", "number", "category", "whole"]
    rows = data.examples.batch(np.arange(6)).numpy()
    np.testing.assert_array_equal(rows[0], np.float32([1.5, 3, 0, 1, 0, 1]))
    assert np.isnan(rows[2, 1:4]).all()
    assert np.isnan(rows[3, 4:]).all()
    assert data.missing == 4


def test_files_and_frames_hold_the_same(people, tmp_path):
    frame = pd.read_csv(people).drop(columns="id").astype({"colour": "category"})
    parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "people.parquet")
    expected = load(people, columns="height,colour,ok,count", categories="auto", missing="mask")
    others = [
        load(tmp_path / "people.parquet", categories="auto", missing="mask"),
        *(from_table(t, categories="auto", missing="mask") for t in (frame, pl.from_pandas(frame))),
    ]
    for other in others:
        assert other.columns == expected.columns
        everything = np.arange(6)
        np.testing.assert_array_equal(other.examples.batch(everything), expected.examples.batch(everything))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 3), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_expanding_and_collapsing_are_inverse(widths, numbers, seed):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, width, 20) for width in widths], 1)
    rows = np.concatenate([rng.normal(size=(20, numbers)), codes], 1)
    wide = expand(torch.from_numpy(rows), widths)
    assert wide.shape == (20, numbers + sum(widths))
    assert (wide[:, numbers:].sum(1) == len(widths)).all()
    np.testing.assert_array_equal(collapse(wide.numpy(), widths), rows)


def test_a_column_costs_one_if_only_its_frequencies_are_known():
    rng = np.random.default_rng(0)
    levels = rng.choice(4, 50_000, p=[0.5, 0.3, 0.15, 0.05])
    x = torch.eye(4, dtype=torch.float64)[torch.from_numpy(levels)]
    frequencies = x.mean(0)
    errors = mixed_values((4,), frequencies)(x, frequencies.expand_as(x)).sum(1)
    assert errors.mean().item() == pytest.approx(1, rel=1e-9)
    assert mixed_values((4,), frequencies)(x, x).sum() == 0
    x[:10] = torch.nan
    assert mixed_values((4,), frequencies)(x, frequencies.expand_as(x))[:10].sum() == 0


def test_an_untrained_decoder_says_the_frequencies():
    config = NetworkConfig("mlp", (5,), 2, 4, "linear", blocks=(3,))
    _, decoder, scaling = build(config)
    scaling.fit(torch.tensor([7.0, 8, 0.5, 0.2, 0.3]), torch.tensor(1.0))
    made = scaling.outward(torch.zeros(2, 5))
    torch.testing.assert_close(made[0], torch.tensor([7.0, 8, 0.5, 0.2, 0.3]))
    made = scaling.outward(decoder(torch.randn(6, 2)))
    torch.testing.assert_close(made[:, 2:].sum(1), torch.ones(6))


def test_costs_of_values_are_summed_over_columns():
    columns = [Column("a", "category", ("x", "y")), Column("b"), Column("c", "category", ("u", "v", "w"))]
    assert stored_order(columns) == [1, 0, 2]
    assert value_names(columns) == ("b", "a=x", "a=y", "c=u", "c=v", "c=w")
    np.testing.assert_array_equal(by_column(np.float64([1, 2, 3, 4, 5, 6])[:, None], columns)[:, 0], [5, 1, 15])


@pytest.mark.parametrize("home", ["pandas", "polars", "pyarrow"])
def test_decoded_values_have_the_columns_and_types_of_the_table(home):
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(["s", "l", "m"] * 4, categories=["s", "m", "l"], ordered=True),
            "n": np.arange(12, dtype=np.int8),
            "x": np.linspace(0, 1, 12, dtype=np.float32),
            "ok": [True, False] * 6,
        }
    )
    table = {"pandas": lambda: frame, "polars": lambda: pl.from_pandas(frame), "pyarrow": lambda: pa.table(frame)}[
        home
    ]()
    data = from_table(table, categories="auto")
    values = data.examples.batch(np.arange(12)).double().numpy()
    again = to_frame(values + 0.2, data.table, FrameKind.of(table))
    if home == "pandas":
        pd.testing.assert_frame_equal(again.drop(columns="x"), frame.drop(columns="x"))
        assert (again.dtypes == frame.dtypes).all()
    elif home == "polars":
        assert again.schema == table.schema
        assert again.drop("x").equals(table.drop("x"))
    else:
        assert again.schema.names == table.schema.names
        assert again.column("n").equals(table.column("n"))


BAD = {
    "texts without categories": ({}, "column 'colour' holds text, not numbers ('red' in row 1)"),
    "a name": ({"categories": "auto", "columns": ["id"]}, "so it is a name rather than a category"),
    "a date": ({"columns": ["born"]}, "column 'born' holds dates or times ('2000-01-01 00:00:00' in row 1); write it"),
    "a word that is none": ({"categories": "all"}, "categories must be one of refuse, auto"),
    "a column that is not there": ({"columns": ["weight"]}, "has no column 'weight'"),
    "a gap": ({"categories": "auto", "columns": ["colour"]}, "column 'colour' lacks 1 of 20 values"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_columns_are_named(case):
    frame = pd.DataFrame(
        {
            "colour": ["red", "blue"] * 9 + ["red", None],
            "id": [f"p{i}" for i in range(20)],
            "born": pd.Timestamp("2000-01-01"),
            "x": np.arange(20.0),
        }
    )
    options, text = BAD[case]
    with pytest.raises(NarrowsError) as caught:
        from_table(frame, **options)
    assert text in str(caught.value)


def test_each_value_belongs_to_one_column():
    columns = (Column("a"), Column("kind", "category", ("x", "y", "z")), Column("b", "flag"), Column("c"))
    places = column_of_values(columns)
    assert [columns[place].name for place in places] == [name.partition("=")[0] for name in value_names(columns)]
    values = np.arange(6.0)
    assert np.bincount(places, weights=values) == pytest.approx(by_column(values, columns))
    assert column_of_values(()) == []
