"""NarrowVAE on tables: what goes in comes back with its columns, its types and everything that was observed."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from narrows import NarrowVAE

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
ROWS = 120
SMALL = {"n_components": 3, "max_steps": 10, "width": 1, "explained": 0.3, "random_state": 0, "device": "cpu"}


def people():
    rng = np.random.default_rng(0)
    h = rng.normal(size=(ROWS, 2))
    frame = pd.DataFrame(
        {
            "x": h[:, 0] + 0.1 * rng.normal(size=ROWS),
            "id": pd.array(2**60 + np.arange(ROWS), dtype="Int64"),
            "size": pd.Categorical(np.where(h[:, 0] > 0, "s", "l"), categories=["s", "m", "l"], ordered=True),
            "rank": pd.Categorical(np.where(h[:, 1] > 0, 3, 1), categories=[3, 2, 1]),
            "ok": h[:, 0] + h[:, 1] > 0,
            "flag": pd.array(h[:, 0] > 1, dtype="boolean"),
            "name": pd.array(np.where(h[:, 1] > 0.5, "a", "b"), dtype="string"),
            "n": np.rint(5 * h[:, 1]).astype(np.int16),
        },
        index=np.arange(ROWS) * 7,
    )
    for place, name in enumerate(["x", "id", "size", "rank", "flag", "name"]):
        frame.loc[frame.index[3 * place : 3 * place + 2], name] = None
    return frame


def fitted(table, **parameters):
    return NarrowVAE(**{**SMALL, "categories": "auto", "missing": "mask", **parameters}).fit(table)


HOMES = {
    "pandas": (lambda frame: frame, lambda table, name: table[name].tolist()),
    "polars": (
        lambda frame: pl.from_pandas(frame.drop(columns="rank")),
        lambda table, name: table[name].to_list(),
    ),
    "pyarrow": (
        lambda frame: pa.Table.from_pandas(frame.drop(columns="rank"), preserve_index=False),
        lambda table, name: table[name].to_pylist(),
    ),
}


@pytest.mark.parametrize("home", HOMES)
def test_imputing_keeps_columns_types_and_what_was_observed(home):
    make, values = HOMES[home]
    table = make(people())
    model = fitted(table)
    full, made = model.impute(table), model.inverse_transform(model.transform(table))
    for found in (full, made):
        assert type(found) is type(table)
        assert (found.dtypes == table.dtypes).all() if home == "pandas" else found.schema == table.schema
    for column in model.table_:
        before, after = values(table, column.name), values(full, column.name)
        assert not pd.isna(after).any()
        assert [one for one, gap in zip(after, pd.isna(before), strict=True) if not gap] == [
            one for one in before if not pd.isna(one)
        ]
    if home == "pandas":
        assert full.index.equals(table.index)
        assert made["size"].cat.categories.tolist() == ["s", "m", "l"]


@pytest.mark.parametrize("home", ["pandas", "polars", "pyarrow"])
def test_a_table_of_numbers_is_an_array_that_is_filled_in_as_a_table(home):
    frame = people()[["x", "id", "n"]]
    table = {"pandas": lambda: frame, "polars": lambda: pl.from_pandas(frame), "pyarrow": lambda: pa.table(frame)}[
        home
    ]()
    model = fitted(table)
    assert isinstance(model.inverse_transform(model.transform(table)), np.ndarray)
    full = model.impute(table)
    assert type(full) is type(table)
    full = full if home == "pandas" else full.to_pandas()
    assert not full.isna().any().any()
    assert full["id"].iloc[5] == 2**60 + 5  # not by way of a float
    if home == "pandas":
        assert (full.dtypes == frame.dtypes).all()


def test_the_order_of_columns_and_other_columns_do_not_matter():
    frame = people()
    model = fitted(frame)
    other = frame.assign(other="text")[["other", *frame.columns[::-1]]]
    np.testing.assert_array_equal(model.transform(other), model.transform(frame))
    assert model.impute(other)["other"].tolist() == ["text"] * ROWS
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.transform(frame), model.transform(frame))


def test_feature_costs_have_a_row_for_each_column_and_sum_to_those_of_dimensions():
    frame = people()
    model = fitted(frame)
    assert model.feature_cost_.shape == (len(frame.columns), model.n_components_)
    np.testing.assert_allclose(model.feature_cost_.sum(0), model.dimension_cost_, rtol=1e-4, atol=1e-6)
    assert model.feature_names_in_.tolist() == list(frame.columns)


def test_a_warm_start_keeps_masks_and_categories():
    frame = people()
    model = fitted(frame, warm_start=True)
    first = model.transform(frame)
    assert model.fit(frame).transform(frame).shape == first.shape
    assert model.model_.network.masked
    assert model.model_.network.blocks == (2, 2, 2, 2, 2)
    with pytest.raises(ValueError, match="warm_start: the model is for a table with other columns or categories"):
        model.fit(frame.assign(name=np.where(np.arange(ROWS) % 2, "q", "r")))
    x = np.random.default_rng(0).random((60, 4))
    complete = fitted(x, warm_start=True)
    with pytest.raises(ValueError, match="warm_start: the model takes no missing values, and X has some"):
        complete.fit(np.where(x > 0.9, np.nan, x))


def test_a_constant_category_adds_nothing_to_the_variance():
    frame = people()[["x", "ok"]].dropna()
    one, other = (fitted(table, explained=0.5) for table in (frame, frame.assign(same="a")))
    assert other.tau_ == pytest.approx(one.tau_)


def test_sample_weights_count_in_means_and_scores():
    frame = people()[["x", "ok"]].dropna()
    weight = np.where(frame["ok"], 3.0, 1.0)
    repeated = np.repeat(np.arange(len(frame)), weight.astype(int))
    x = frame[["x"]].assign(y=frame["ok"].astype(float)).to_numpy()
    for table in (frame, x):
        model = NarrowVAE(**SMALL, categories="auto").fit(table, sample_weight=weight)
        more = table[repeated] if table is x else table.iloc[repeated]
        assert model.score(table, sample_weight=weight) == pytest.approx(model.score(more), rel=1e-9)
        assert model.mean_[0] == pytest.approx(x[repeated, 0].mean())


BAD = {
    "an unseen category": (lambda f: f.assign(name="zebra"), "X: column 'name' has 'zebra' in row 1, which is none of"),
    "an unseen level": (lambda f: f.assign(size="xl"), "X: column 'size' has 'xl' in row 1, which is none of"),
    "texts for numbers": (lambda f: f.assign(x="red"), "X: column 'x' must hold numbers, as in the table that the"),
    "a column that is gone": (lambda f: f.drop(columns="x"), "X has no column 'x'; its columns: id, size"),
    "an array": (lambda f: np.zeros((3, 8)), "X must be a data frame with the columns that the estimator was fitted"),
    "no rows": (lambda f: f.iloc[:0], "X has no rows"),
    "two columns of one name": (lambda f: pd.concat([f, f], axis=1), "X has several columns called 'x'"),
}


@pytest.fixture(scope="module")
def model():
    return fitted(people())


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named(case, model):
    make, text = BAD[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        model.transform(make(people()))
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


BAD_FITS = {
    "dates": (lambda f: f.assign(d=pd.Timestamp("2020-01-01")), {}, "X: column 'd' holds dates or times ('2020-01-01"),
    "texts": (lambda f: f, {"categories": "refuse"}, "X: column 'name' holds text, not numbers"),
    "mixed objects": (lambda f: f.assign(d=[1, "a"] * 60), {}, "X: column 'd' cannot be read"),
    "an empty category": (lambda f: f.assign(d=pd.Categorical([None] * ROWS, ["q"])), {}, "X: column 'd' has no value"),
    "an empty number": (lambda f: f[["x", "n"]].assign(d=np.nan), {}, "X: column 'd' has no value in any of 120 rows"),
    "a gap": (lambda f: f, {"missing": "refuse"}, "X: column 'x' lacks 2 of 120 values"),
    "another error": (lambda f: f, {"error": "absolute", "tau": 1.0}, "X has categories, whose cross-entropy is added"),
    "an error of one's own": (
        lambda f: f[["x", "n"]],
        {"error": lambda x, y: (x - y).square().sum(1), "tau": 1.0},
        "error is a function, which cannot know how to count values that are missing",
    ),
    "few rows": (lambda f: f.iloc[18:23], {}, "fitting needs at least 10 samples"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_fits_are_named(case):
    make, parameters, text = BAD_FITS[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fitted(make(people()), **parameters)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("home", list(HOMES))
def test_a_column_that_is_empty_in_new_rows_is_filled_in(home):
    frame, (make, _) = people(), HOMES[home]
    model = fitted(make(frame))
    for empty in ("size", "name", "ok", "x"):
        new = make(frame.head(6))
        if home == "pandas":
            new = new.assign(**{empty: None})
        elif home == "polars":
            new = new.with_columns(pl.lit(None).alias(empty))
        else:
            new = new.set_column(new.column_names.index(empty), empty, pa.nulls(6))
        full = model.impute(new)
        values = full[empty].to_pylist() if home == "pyarrow" else list(full[empty])
        assert len(values) == 6
        assert all(value is not None and value == value for value in values)
        if empty != "x":
            seen = {str(value).lower() for value in frame[empty].dropna()}
            assert {str(value).lower() for value in values} <= seen


def test_rows_without_any_value_have_no_score():
    model = NarrowVAE(**{**SMALL, "missing": "mask"}).fit(
        np.where(np.eye(60, 4) == 1, np.nan, np.ones((60, 4)).cumsum(0))
    )
    with pytest.raises(ValueError, match="X has no value that was observed, so there is nothing to score"):
        model.score(np.full((5, 4), np.nan))


def test_too_few_groups_are_called_groups():
    x = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(match=r"only 1 group is for the test, and at least 30 are needed"):
        NarrowVAE(**SMALL).fit(x, groups=np.arange(60) // 6)
