"""Missing values: what was not observed changes nothing, and what is complete is trained as if masks did not exist."""

import numpy as np
import pytest
import torch

from narrows import NarrowsError, NarrowVAE, TrainConfig, from_array, load, load_model, train
from narrows.data import split
from narrows.data.synthetic import curved_manifold
from narrows.networks import NetworkConfig, build
from narrows.objective import ERRORS, observed
from narrows.training.setup import make_plan

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")


def gaps(x, share, seed=1):
    return np.where(np.random.default_rng(seed).random(x.shape) < share, np.nan, x)


@pytest.mark.parametrize("name", ERRORS)
def test_an_observed_error_counts_the_observed_values(name):
    x, y = torch.rand(4, 6, dtype=torch.float64), torch.rand(4, 6, dtype=torch.float64, requires_grad=True)
    whole = observed(name)(x, y)
    torch.testing.assert_close(whole, ERRORS[name](x, y), rtol=1e-12, atol=0)
    x[:, 4:] = torch.nan
    error = observed(name)(x, y)
    torch.testing.assert_close(error, ERRORS[name](x[:, :4], y[:, :4]), rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(error.sum(), y)
    assert not gradient[:, 4:].any()
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    "config", [NetworkConfig("mlp", (6,), 3, 4, "linear"), NetworkConfig("conv", (1, 16, 16), 3, 4)]
)
def test_an_encoder_reads_where_values_are_missing(config):
    masked = NetworkConfig(config.kind, config.shape, config.n, config.width, config.output, masked=True)
    encoder = build(masked)[0].eval()
    x = torch.rand(3, *config.shape)
    there, absent = encoder(x), x.clone()
    absent[..., 0] = torch.nan
    zero = x.clone()
    zero[..., 0] = 0
    assert torch.isfinite(encoder(absent)).all()
    assert not torch.equal(encoder(absent), encoder(zero))  # a 0 that was observed is not a gap
    assert torch.equal(encoder(x), there)


def test_tau_and_variance_are_those_of_the_observed_values():
    x = gaps(np.random.default_rng(0).normal(5, [1, 2, 3], (4_000, 3)), [0.1, 0.5, 0.0])
    data = from_array(x, "any", missing="mask")
    plan = make_plan(TrainConfig(explained=0.9, values="any", n=2).checked(), data)
    train_rows = x[plan.splits.train]
    squares = np.nansum((train_rows - np.nanmean(train_rows, 0)) ** 2) / len(train_rows)
    assert plan.tau == pytest.approx(0.1 * squares, rel=1e-6)
    assert plan.values == 2  # 0.9 + 0.5 + 1
    assert data.missing == np.isnan(x).sum()


def test_complete_data_are_trained_bit_for_bit_as_without_masks(tmp_path):
    x = curved_manifold(400, d=2, ambient=8, seed=0)
    runs = []
    for missing in ("refuse", "mask"):
        data = from_array(x, "any", missing=missing)
        config = TrainConfig(explained=0.9, values="any", steps=60, width=4, device="cpu")
        runs.append(train(config, tmp_path / missing, data))
    one, other = (load_model(run.folder.model).state_dict() for run in runs)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_masked_model_finds_the_dimensions_and_fills_in_the_gaps():
    x, new = np.split(curved_manifold(1_700, d=2, ambient=12, seed=0).astype(np.float64) * 10 + 3, [1_500])
    model = NarrowVAE(8, explained=0.9, missing="mask", width=8, device="cpu", random_state=0).fit(gaps(x, 0.2))
    assert (model.n_components_, model.met_) == (2, True)
    holes = gaps(new, 0.2, seed=2)
    filled = model.impute(holes)
    absent = np.isnan(holes)
    assert np.array_equal(filled[~absent], new[~absent])
    guess = np.broadcast_to(model.mean_, new.shape)
    assert np.mean((filled - new)[absent] ** 2) < 0.4 * np.mean((guess - new)[absent] ** 2)
    assert model.transform(holes).shape == (200, 2)
    assert model.score(holes) > 0.85
    assert model.feature_cost_.sum(0) == pytest.approx(model.dimension_cost_, rel=1e-4)


@pytest.mark.parametrize("scaling", ["standard", "minmax"])
def test_a_column_that_the_training_split_never_shows_is_refused(tmp_path, scaling):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(f"{i}," for i in range(40)))
    test = split(load(path, columns="a")).test
    path.write_text("a,b\n" + "\n".join(f"{i},{i if i in test else ''}" for i in range(40)))
    config = TrainConfig(explained=0.5, scaling=scaling, n=1, batch=4).checked()
    with pytest.raises(NarrowsError, match="column 'b' has no value in the training split; leave it out"):
        make_plan(config, load(path, missing="mask"))


def test_a_split_whose_rows_all_have_weight_0_is_refused():
    x = np.random.default_rng(0).random((40, 3))
    weights = np.ones(40)
    weights[split(from_array(x)).test] = 0
    with pytest.raises(NarrowsError, match="all rows of the test split have weight 0"):
        make_plan(TrainConfig(explained=0.5, values="any", n=1, batch=4).checked(), from_array(x, weights=weights))


def test_other_weights_or_groups_are_other_data():
    x = np.random.default_rng(0).random((40, 3))
    config = TrainConfig(explained=0.5, values="any", n=1, batch=4).checked()
    options = ({}, {"weights": np.ones(40)}, {"weights": np.r_[2, np.ones(39)]}, {"groups": np.arange(40)})
    assert len({make_plan(config, from_array(x, **one)).fingerprint for one in options}) == 4


def test_images_may_lack_pixels(tmp_path):
    images = np.zeros((200, 16, 16), np.float32)
    for image, (row, column) in zip(images, np.random.default_rng(0).integers(0, 10, (200, 2)), strict=True):
        image[row : row + 6, column : column + 6] = 1
    np.save(tmp_path / "images.npy", gaps(images, 0.1))
    config = TrainConfig(str(tmp_path / "images.npy"), missing="mask", explained=0.5, steps=4, width=4, device="cpu")
    outcome = train(config, tmp_path / "run")
    model = load_model(outcome.folder.model)
    assert model.network.masked
    assert outcome.result.heldout.count == 20


BAD = {
    "NaN without a mask": (lambda x: (gaps(x, 0.1), {}), "missing='mask'"),
    "an infinity": (lambda x: (np.where(x > 0.5, np.inf, x), {"missing": "mask"}), "are infinite"),
    "a column without a value": (
        lambda x: (np.where(np.arange(4) == 2, np.nan, x), {"missing": "mask"}),
        "column 2 has no value in any of 40 rows",
    ),
    "a word that is none": (
        lambda x: (x, {"missing": "ignore"}),
        "missing must be one of refuse, mask; it is 'ignore'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_missing_values_are_named(case):
    x, options = BAD[case][0](np.random.default_rng(0).random((40, 4)))
    with pytest.raises(NarrowsError) as caught:
        from_array(x, "any", **options)
    assert BAD[case][1] in str(caught.value)


def test_a_masked_array_is_an_array_with_missing_values():
    x = np.ma.masked_greater(np.random.default_rng(0).random((40, 4)), 0.9)
    data = from_array(x, missing="mask")
    assert data.missing == x.mask.sum()
    with pytest.raises(NarrowsError, match="some values are masked"):
        from_array(x)


def test_empty_fields_of_a_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(f"{i if i % 3 else ''},{i * 2}" for i in range(30)))
    data = load(path, missing="mask")
    assert data.missing == 10
    assert np.isnan(data.examples.batch(np.array([0])).numpy()[0, 0])
    with pytest.raises(NarrowsError, match=r"column 'a' lacks 10 of 30 values .* missing='mask'"):
        load(path)
    path.write_text("a,b\n" + "\n".join(f",{i}" for i in range(30)))
    with pytest.raises(NarrowsError, match="column 'a' has no value in any of 30 rows"):
        load(path, missing="mask")
