"""Counts in the estimator and on the command line: sparse and dense, library sizes, weights, saved models."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import d2_tweedie_score

from count_data import drawn_counts
from narrows import NarrowsError, NarrowVAE, NetworkConfig, load_model
from narrows.cli import main
from narrows.data.synthetic import curved_manifold
from narrows.runs.folder import RunFolder

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
X, _ = drawn_counts(400, 30)
SMALL = {"explained": 0.5, "max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}
COUNTS = ("poisson", "negative-binomial")


@pytest.fixture(scope="module", params=COUNTS)
def fitted(request):
    return NarrowVAE(4, error=request.param, **SMALL).fit(X)


def same(one: NarrowVAE, other: NarrowVAE) -> bool:
    """Whether two fits have the same model and the same answer, to the last bit."""
    first, second = one.model_.state_dict(), other.model_.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("error", COUNTS)
def test_sparse_counts_are_fitted_bit_for_bit_as_dense_ones(error, dtype):
    dense = NarrowVAE(4, error=error, **SMALL).fit(X.astype(dtype))
    sparse = NarrowVAE(4, error=error, **SMALL).fit(sp.csr_array(X.astype(dtype)))
    assert same(dense, sparse)
    assert np.array_equal(dense.transform(X), sparse.transform(sp.csc_matrix(X)))
    assert dense.score(X) == sparse.score(sp.csr_array(X))
    assert np.array_equal(dense.mean_, sparse.mean_)


@pytest.mark.parametrize("error", ["squared", "absolute", "cross-entropy"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_of_any_values_are_fitted_bit_for_bit_as_dense_ones(error, dtype):
    x = np.where(np.random.default_rng(0).random((200, 12)) < 0.7, 0, curved_manifold(200, d=2, ambient=12, seed=0))
    x = (abs(x) / abs(x).max() if error == "cross-entropy" else 100 * x - 3 * (x != 0)).astype(dtype)
    promise = {"tau": 3.0, "explained": None} if error != "squared" else {}
    dense, sparse = (NarrowVAE(4, error=error, **SMALL | promise).fit(one) for one in (x, sp.csr_matrix(x)))
    assert same(dense, sparse)
    assert np.array_equal(dense.transform(x), sparse.transform(sp.csr_array(x)))
    assert dense.score(x) == sparse.score(sp.csr_array(x))


def test_codes_do_not_depend_on_the_library_size(fitted):
    np.testing.assert_allclose(fitted.transform(X), fitted.transform(X * 5), rtol=1e-9, atol=1e-9)


def test_decoded_counts_have_the_library_size_that_is_asked_for(fitted):
    codes = fitted.transform(X[:9])
    for size, expected in (
        (None, np.full(9, fitted.model_.scaling.size.item())),
        (10, np.full(9, 10)),
        (X[:9].sum(1), X[:9].sum(1)),
    ):
        np.testing.assert_allclose(fitted.inverse_transform(codes, size).sum(1), expected, rtol=1e-6)
    assert fitted.sample(3, random_state=0, library_size=7).sum(1) == pytest.approx([7, 7, 7], rel=1e-6)
    for bad in (0, -1, np.nan, np.inf, [1, 2], "x"):
        with pytest.raises(ValueError, match=r"^library_size must be"):
            fitted.inverse_transform(codes, bad)


def test_the_score_is_the_explained_deviance():
    model = NarrowVAE(4, error="poisson", **SMALL).fit(X)
    size = X.sum(1, keepdims=True)
    null = size * model.model_.scaling.proportion.double().numpy()
    decoded = model.inverse_transform(model.transform(X), X.sum(1))
    # scikit-learn's null model has one mean for all values, so compare shares through it
    shares = [1 - d2_tweedie_score(X.ravel(), mean.ravel(), power=1) for mean in (decoded, null)]
    assert model.score(X) == pytest.approx(1 - shares[0] / shares[1], rel=1e-6)
    assert 0 < model.explainable_ < 1
    assert model.tau_ == pytest.approx(model.result_.null_deviance * (1 - 0.5 * model.explainable_))


def test_a_decoder_that_says_nothing_says_the_proportions_of_the_data():
    model = NarrowVAE(4, error="poisson", **SMALL).fit(X).model_
    counts = model.scaling.outward(torch.zeros(2, 30))
    torch.testing.assert_close(counts[0], model.scaling.size * model.scaling.proportion)
    torch.testing.assert_close(counts.sum(1), model.scaling.size.expand(2))
    assert abs(model.scaling.proportion.numpy() - X.sum(0) / X.sum()).max() < 0.01, "of the rows that train"


def test_only_vectors_can_be_counts():
    with pytest.raises(NarrowsError, match="counts must be whole vectors of numbers"):
        NetworkConfig("mlp", (1, 4, 4), n=2, output="counts")


def test_a_sampler_takes_sparse_rows(fitted):
    dense, sparse = (fitted.fit_sampler(rows, "gaussian", random_state=0) for rows in (X, sp.csr_array(X)))
    drawn = [fitted.sample(5, random_state=0, sampler=one, library_size=9) for one in (dense, sparse)]
    assert np.array_equal(*drawn)
    assert drawn[0].sum(1) == pytest.approx([9] * 5, rel=1e-6)


def test_weights_count_rows_as_often():
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    model = NarrowVAE(4, error="poisson", **SMALL).fit(sp.csr_array(X), sample_weight=weight)
    np.testing.assert_allclose(model.mean_, np.average(X, 0, weight), rtol=1e-9)
    repeated = np.repeat(X, weight.astype(int), 0)
    assert model.score(X, sample_weight=weight) == pytest.approx(model.score(repeated), rel=1e-9)


def test_an_estimator_of_counts_can_be_copied(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(X), fitted.transform(X))
    assert again.score(X) == fitted.score(X)


def test_two_dimensions_are_found():
    x, _ = drawn_counts(800, 60, d=2, total=150)
    model = NarrowVAE(4, error="poisson", explained=0.7, width=4, device="cpu", random_state=0, max_steps=800)
    model.fit(sp.csr_array(x))
    assert (model.n_components_, model.met_) == (2, True)


@pytest.mark.parametrize(
    ("change", "parameters", "expected"),
    [
        (lambda x: x - 1, {}, "counts must be 0 or more; row 0, column .* before any logarithm or scaling"),
        (lambda x: x * (np.arange(len(x)) != 7)[:, None], {}, "row 7 has no counts"),
        (lambda x: x[:, :, None], {}, r"for whole rows of counts, \(N, D\); X has the shape \(400, 30, 1\)"),
        (lambda x: x, {"missing": "mask"}, "error='poisson' is for whole rows of counts.*missing='mask'"),
        (lambda x: np.where(x > 3, np.nan, x), {}, "NaN"),
        (lambda x: 0 * x + 2, {}, r"cannot be told from these counts: .*; pass counts as they were observed"),
    ],
)
def test_what_cannot_be_counts_is_refused(change, parameters, expected):
    for kind in (np.asarray, sp.csr_array):
        x = change(X)
        if x.ndim > 2 and kind is sp.csr_array:
            continue
        with pytest.raises(ValueError, match=expected):
            NarrowVAE(**{**SMALL, "error": "poisson", **parameters}).fit(kind(x))


def test_counts_are_checked_when_the_model_is_used(fitted):
    for method in (fitted.transform, fitted.score):
        with pytest.raises(ValueError, match="counts must be 0 or more"):
            method(X - 5)
        with pytest.raises(ValueError, match="row 0 has no counts"):
            method(sp.csr_array(0 * X))


def test_counts_that_are_not_whole_are_warned_about():
    with pytest.warns(UserWarning, match="not whole numbers"):
        NarrowVAE(4, error="poisson", **SMALL | {"explained": None, "tau": 20.0}).fit(X / 2)


def test_what_sparse_matrices_and_other_models_cannot_do_is_said():
    with pytest.raises(ValueError, match=r"X is sparse.*leave missing='mask' out"):
        NarrowVAE(**SMALL, missing="mask").fit(sp.csr_array(X))
    model = NarrowVAE(**SMALL).fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="X is sparse, so it has no gaps"):
        model.impute(sp.csr_array(X))
    with pytest.raises(ValueError, match="library_size is for models of counts"):
        model.inverse_transform(model.transform(X), 3)


@pytest.mark.parametrize("error", COUNTS)
def test_the_command_line_trains_on_a_sparse_file_and_uses_the_model(error, tmp_path, capsys):
    sp.save_npz(tmp_path / "cells.npz", sp.csr_array(X.astype(np.int32)))
    np.save(tmp_path / "bytes.npy", X.astype(np.uint8))
    data, folder = str(tmp_path / "cells.npz"), tmp_path / "run"
    small = ["--n", "4", "--steps", "30", "--width", "2", "--device", "cpu", "--out", str(folder)]
    assert main(["train", data, "--error", error, "--explained", "0.5", *small]) == 0
    assert "of the deviance that is not noise explained" in capsys.readouterr().out
    result, model = RunFolder(folder).read_result(), load_model(folder / "model.safetensors")
    assert result.null_deviance > result.explainable > 0
    dispersed = bool((model.scaling.dispersion > 0).any())
    assert dispersed == (error == "negative-binomial")
    for name, source in (("x.npy", data), ("y.npy", str(tmp_path / "bytes.npy"))):
        assert main(["reconstruct", str(folder), source, "-o", str(tmp_path / name)]) == 0
        assert main(["encode", str(folder), source, "-o", str(tmp_path / f"z{name}")]) == 0
        decoded = np.load(tmp_path / name)
        np.testing.assert_allclose(decoded.sum(1), X.sum(1), rtol=1e-4)
        with torch.no_grad():
            expected = model.reconstruct(torch.from_numpy(X).float()).numpy()
        np.testing.assert_allclose(decoded, expected, rtol=1e-4, atol=1e-6)
    assert np.array_equal(np.load(tmp_path / "zx.npy"), np.load(tmp_path / "zy.npy"))
    assert main(["decode", str(folder), str(tmp_path / "zx.npy"), "-o", str(tmp_path / "d.npy")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "d.npy").sum(1), model.scaling.size.item(), rtol=1e-4)
    assert main(["encode", str(folder), "-o", str(tmp_path / "again.npy")]) == 0, "the same data are recognised"
    np.save(tmp_path / "bad.npy", X - 1)
    assert main(["encode", str(folder), str(tmp_path / "bad.npy"), "-o", str(tmp_path / "n.npy")]) == 2
    assert "counts must be 0 or more" in capsys.readouterr().err


def test_an_exported_decoder_gives_expected_counts(tmp_path):
    np.save(tmp_path / "x.npy", X)
    small = ["--n", "4", "--steps", "20", "--width", "2", "--device", "cpu", "--out", str(tmp_path / "run")]
    assert main(["train", str(tmp_path / "x.npy"), "--error", "poisson", "--tau", "20", *small]) == 0
    assert main(["export", str(tmp_path / "run"), "--to", "torch", "-o", str(tmp_path / "out")]) == 0
    model = load_model(tmp_path / "run" / "model.safetensors")
    decoder = torch.export.load(tmp_path / "out" / "decoder.pt2").module()
    encoder = torch.export.load(tmp_path / "out" / "encoder.pt2").module()
    x = torch.from_numpy(X[:7]).float()
    with torch.no_grad():
        mean, _ = encoder(x)
        torch.testing.assert_close(decoder(mean), model.decode(model.encode(x).mean))
