"""Batches of counts: the decoder is told them, so codes need not say them; the promise is about the row's own batch."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from count_data import drawn_batches
from narrows import NarrowsError, NarrowVAE, NetworkConfig, load_model, save_model
from narrows.cli import main
from narrows.data import Data
from narrows.data.examples import ArrayExamples
from narrows.objective import count_values
from narrows.training.counts import measure_counts

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
X, BATCH = drawn_batches(400, 30)
NAMES = np.array(["one", "two", "three"])[BATCH]
SMALL = {"explained": 0.5, "max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module", params=["poisson", "negative-binomial"])
def fitted(request):
    return NarrowVAE(4, error=request.param, **SMALL).fit(X, batch=NAMES)


def read_off(codes, batch):
    """How often a linear classifier names the right batch of codes it has not seen."""
    return cross_val_score(LogisticRegression(max_iter=1_000), codes, batch, cv=5).mean()


def test_the_dimensions_are_found_and_codes_do_not_tell_the_batch():
    x, batch = drawn_batches(2_000, 100, d=3, total=600.0)
    parameters = {"error": "poisson", "explained": 0.95, "width": 4, "device": "cpu", "random_state": 0}
    told = NarrowVAE(8, **parameters).fit(x, batch=batch)
    assert abs(told.n_components_ - 3) <= 1
    assert told.met_
    assert read_off(told.transform(x, batch=batch), batch) < 0.42, "chance is 0.33"
    alone = NarrowVAE(8, **parameters).fit(x)
    assert read_off(alone.transform(x), batch) > 0.9


def test_without_batches_nothing_is_added_to_a_model():
    model = NarrowVAE(4, error="poisson", **SMALL).fit(X)
    assert model.batches_ == ()
    assert "scaling.offset" not in model.model_.state_dict()
    assert model.model_.encoder.first.in_features == 30
    assert model.model_.scaling.proportion.shape == (30,)


def test_sparse_counts_and_names_of_any_kind_give_the_same_model(fitted):
    again = NarrowVAE(4, error=fitted.error, **SMALL).fit(sp.csr_array(X), batch=NAMES.astype(object))
    first, second = fitted.model_.state_dict(), again.model_.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert np.array_equal(fitted.transform(X, batch=NAMES), again.transform(sp.csc_array(X), batch=list(NAMES)))
    assert fitted.score(X, batch=NAMES) == again.score(sp.csr_array(X), batch=NAMES)
    assert fitted.batches_ == ("one", "three", "two")
    numbers = NarrowVAE(4, error=fitted.error, **SMALL).fit(X, batch=BATCH)
    assert numbers.batches_ == ("0", "1", "2")
    assert numbers.transform(X, batch=BATCH.astype(str)).shape == (400, numbers.n_components_)


def test_a_decoder_that_says_nothing_says_the_proportions_of_each_batch():
    scaling = NarrowVAE(4, error="poisson", **SMALL).fit(X, batch=NAMES).model_.scaling
    torch.nn.init.zeros_(scaling.offset)
    decoded, each = scaling.outward(torch.zeros(3, 30)), torch.eye(3)
    torch.testing.assert_close(decoded.of(each), scaling.size * scaling.proportion)
    torch.testing.assert_close(decoded.expected.sum(1), scaling.size.expand(3))
    average = scaling.proportion.log().mean(0).softmax(0)
    torch.testing.assert_close(decoded.expected[0], scaling.size * average, msg="the geometric mean of all")
    for number, name in enumerate(("one", "three", "two")):
        there = X[name == NAMES].sum(0)
        assert abs(scaling.proportion[number].numpy() - there / there.sum()).max() < 0.03, "of the rows that train"


def test_a_second_fit_continues_with_what_was_learned_of_batches(fitted):
    before, other = fitted.model_.scaling, NarrowVAE(4, error="poisson", **SMALL).fit(X[::2], batch=NAMES[::2])
    scaling = copy.deepcopy(other.model_.scaling)
    scaling.continue_from(before)
    assert not torch.equal(scaling.proportion, before.proportion)
    for here, there in zip(scaling.outward(torch.zeros(1, 30)), before.outward(torch.zeros(1, 30)), strict=True):
        ratio = (here / here.sum() / (there / there.sum())) if len(here) == 1 else here - there + 1
        torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=1e-4, atol=1e-4)


def test_the_error_is_that_of_the_rows_own_batch(fitted):
    model = copy.deepcopy(fitted.model_).double()
    number = np.searchsorted(fitted.batches_, NAMES)
    wide = torch.from_numpy(np.hstack([X, np.eye(3)[number]]))
    dispersion = model.scaling.dispersion
    with torch.no_grad():
        errors = count_values(dispersion)(wide, model.decode(model.encode(wide).mean)).sum(1).numpy()
    codes = fitted.transform(X, batch=NAMES)
    decoded = torch.from_numpy(fitted.inverse_transform(codes, X.sum(1), NAMES))
    expected = count_values(dispersion)(torch.from_numpy(X), decoded).sum(1).numpy()
    np.testing.assert_allclose(errors, expected, rtol=1e-9)
    shares = X.sum(1, keepdims=True) * model.scaling.proportion.numpy()[number]
    null = count_values(dispersion)(torch.from_numpy(X), torch.from_numpy(shares)).sum().item()
    assert fitted.score(X, batch=NAMES) == pytest.approx(1 - errors.sum() / null)


def test_batches_alone_leave_nothing_to_explain():
    rng = np.random.default_rng(0)
    share = rng.dirichlet(np.ones(30), 3)
    x = rng.poisson(60 * share[BATCH]).astype(np.float32)
    wide = ArrayExamples(np.hstack([x, np.eye(3, dtype=np.float32)[BATCH]]))
    told, alone = measure_counts(wide, np.arange(400), batches=3), measure_counts(ArrayExamples(x), np.arange(400))
    assert told.explainable < 0.05 * alone.explainable
    assert told.null < alone.null - 0.8 * alone.explainable
    for number in range(3):
        mine = measure_counts(ArrayExamples(x[number == BATCH]), np.arange((number == BATCH).sum()))
        np.testing.assert_allclose(told.proportion[number], mine.proportion, atol=2e-3)
    assert measure_counts(wide, np.arange(400), np.full(400, 2.0), batches=3).null == pytest.approx(told.null, rel=1e-3)
    assert measure_counts(wide, np.arange(400), None, True, 3).dispersion.mean() < 0.05, "of the rows' own batches"


def test_codes_are_decoded_to_an_average_batch_a_named_one_or_one_per_row(fitted):
    codes = fitted.transform(X[:5], batch=NAMES[:5])
    average, of_one = fitted.inverse_transform(codes), fitted.inverse_transform(codes, batch="one")
    ratios = [np.log(fitted.inverse_transform(codes, batch=name) / average) for name in fitted.batches_]
    ratio = np.mean(ratios, 0)
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), atol=1e-6)
    rows = fitted.inverse_transform(codes, batch=NAMES[:5])
    assert np.array_equal(rows[NAMES[:5] == "one"], of_one[NAMES[:5] == "one"])
    assert not np.allclose(of_one, average, rtol=0.1)
    np.testing.assert_allclose(fitted.inverse_transform(codes, 10, "two").sum(1), 10)
    assert fitted.sample(3, random_state=0, library_size=7).sum(1) == pytest.approx([7, 7, 7])


def test_weights_groups_samplers_and_a_second_fit_take_batches():
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    model = NarrowVAE(4, error="poisson", warm_start=True, **SMALL)
    codes = model.fit_transform(X, batch=NAMES, sample_weight=weight, groups=np.arange(400) // 4)
    assert np.array_equal(codes, model.transform(X, batch=NAMES))
    repeated = np.repeat(X, weight.astype(int), 0)
    expected = model.score(repeated, batch=np.repeat(NAMES, weight.astype(int)))
    assert model.score(X, sample_weight=weight, batch=NAMES) == pytest.approx(expected, rel=1e-9)
    assert model.fit_sampler(X, "gaussian", batch=NAMES).n == model.n_components_
    model.fit(X, batch=NAMES)
    with pytest.raises(ValueError, match="warm_start: the model is for other batches"):
        model.fit(X, batch=BATCH)


def test_an_estimator_can_be_copied_and_its_model_be_saved(fitted, tmp_path, capsys):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(X, batch=NAMES), fitted.transform(X, batch=NAMES))
    file = tmp_path / "model.safetensors"
    save_model(fitted.model_, file)
    number = np.searchsorted(fitted.batches_, NAMES)
    wide = torch.from_numpy(np.hstack([X, np.eye(3)[number]])).to(fitted.model_.scaling.shift.dtype)
    loaded = load_model(file)
    with torch.no_grad():
        assert torch.equal(loaded.reconstruct(wide), fitted.model_.reconstruct(wide))
        torch.testing.assert_close(loaded.reconstruct(wide).sum(1), wide[:, :30].sum(1))
        with pytest.raises(NarrowsError, match=r"x must be a tensor of examples, \(batch, 33\); it is of shape"):
            loaded.encode(wide[:, :30])
    np.save(tmp_path / "x.npy", X)
    assert main(["encode", str(file), str(tmp_path / "x.npy"), "-o", str(tmp_path / "z.npy")]) == 2
    assert "was fitted with batches" in capsys.readouterr().err


def own_networks(shape, n):
    return torch.nn.Linear(shape[0], 2 * n), torch.nn.Linear(n, shape[0])


@pytest.mark.parametrize(
    ("batch", "parameters", "expected"),
    [
        (NAMES[:9], {}, r"batch must have one entry per row, \(400,\); it has the shape \(9,\)"),
        (np.where(BATCH == 1, None, NAMES), {}, r"batch must name a batch for every row; row \d+ has none"),
        (np.where(BATCH == 1, np.nan, 1.0), {}, r"batch must name a batch for every row; row \d+ has none"),
        (["one"] * 400, {}, "batch must name from 2 to 50 batches; it names 1: leave it out"),
        (np.arange(400) // 7, {}, "batch must name from 2 to 50 batches; it names 58: join"),
        (np.arange(400) < 9, {}, "batch must name each batch for 10 rows or more; 'True' has 9"),
        (NAMES, {"error": "squared"}, "batch is for counts, error='poisson' or 'negative-binomial'; leave it out"),
        (NAMES, {"network": own_networks}, "a batch is for built-in networks.*leave network out"),
    ],
)
def test_batches_that_cannot_be_used_are_refused(batch, parameters, expected):
    with pytest.raises(ValueError, match=expected):
        NarrowVAE(4, **{"error": "poisson", **SMALL, **parameters}).fit(X, batch=batch)


def test_what_is_missing_or_unknown_when_the_model_is_used_is_said(fitted):
    for method in (fitted.transform, fitted.score, fitted.fit_sampler, fitted.impute):
        with pytest.raises(ValueError, match=r"X must come with the batch of each row \(one, three, two\)"):
            method(X)
    unknown = np.where(np.arange(400) == 7, "four", NAMES)
    with pytest.raises(ValueError, match=r"fitted to \(one, three, two\); row 7 is from 'four'"):
        fitted.transform(X, batch=unknown)
    with pytest.raises(ValueError, match="row 0 is from 'four'"):
        fitted.inverse_transform(np.zeros((2, fitted.n_components_)), batch="four")
    plain = NarrowVAE(4, error="poisson", **SMALL).fit(X)
    for call in (plain.transform, plain.score):
        with pytest.raises(ValueError, match="batch is for estimators that were fitted with batches; leave it out"):
            call(X, batch=NAMES)
    with pytest.raises(ValueError, match="row 3 has no counts"):
        NarrowVAE(4, error="poisson", **SMALL).fit(X * (np.arange(400) != 3)[:, None], batch=NAMES)


def test_only_counts_have_batches():
    with pytest.raises(NarrowsError, match="batches must be 0 where the output is linear"):
        NetworkConfig("mlp", (4,), n=2, output="linear", batches=2)
    assert Data("x", ArrayExamples(X), "any").batches == 0


def test_a_report_is_written_without_examples(fitted, tmp_path):
    assert fitted.report(tmp_path / "report.html").stat().st_size > 10_000
    with pytest.raises(ValueError, match="fitted with batches; leave X out"):
        fitted.report(X=X)
