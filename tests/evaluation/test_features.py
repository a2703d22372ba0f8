"""The classifier learns what can be learned, once; features are standardised; vectors are their own features."""

import dataclasses

import numpy as np
import pytest
import torch

from narrows.data import Factors, from_array, split
from narrows.data.factors import Factor, kinds
from narrows.evaluation import classifier
from narrows.evaluation.classifier import FeatureNetwork, trained_classifier, untrained
from narrows.evaluation.features import MOST_COLUMNS, make_features


@pytest.fixture
def squares(tmp_path, monkeypatch):
    """240 images of 12x12 with a bright half, left or right, upper or lower, and the two labels that say so."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (240, 12, 12), dtype=np.uint8)
    labels = np.stack([np.zeros(240, np.int64), *rng.integers(0, 2, (2, 240))], axis=1)
    for image, (_, side, level) in zip(x, labels, strict=True):
        image[:, 6 * side : 6 * side + 6] += 70
        image[6 * level : 6 * level + 6] += 70
    factors = Factors((Factor("colour", (1.0,)), kinds("side", "lr"), kinds("level", "ul")), labels)
    return dataclasses.replace(from_array(x, name="squares"), factors=factors)


def test_it_learns_every_label_that_has_values(squares):
    network, accuracy = trained_classifier(squares, split(squares), "a")
    assert set(accuracy) == {"side", "level"}  # a colour that all have teaches nothing
    assert min(accuracy.values()) > 0.9
    assert network(squares.examples.batch(np.arange(5))).shape == (5, classifier.WIDTH)


def test_a_cached_classifier_is_used_and_a_damaged_one_replaced(squares, tmp_path, monkeypatch):
    splits = split(squares)
    first, accuracy = trained_classifier(squares, splits, "a")
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()

    def train_again(*anything):
        raise AssertionError("it was there")

    x = squares.examples.batch(np.arange(9))
    with monkeypatch.context() as patch:
        patch.setattr(classifier, "_train", train_again)
        again, stored = trained_classifier(squares, splits, "a")
        torch.testing.assert_close(again(x), first(x), rtol=0, atol=0)
        assert stored == accuracy
        for changed in ({"key": "b"}, {"key": "a", "seed": 1}):
            with pytest.raises(AssertionError, match="it was there"):
                trained_classifier(squares, splits, **changed)
    for damage in (whole[: len(whole) // 2], b"", b"noise" * 100):
        path.write_bytes(damage)
        replaced, _ = trained_classifier(squares, splits, "a")
        torch.testing.assert_close(replaced(x), first(x), rtol=0, atol=0)
        assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_no_obstacle(squares, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "file"))
    _, accuracy = trained_classifier(squares, split(squares), "a")
    assert min(accuracy.values()) > 0.9


@pytest.mark.parametrize("labelled", [True, False])
def test_features_are_standardised_on_the_training_split(squares, labelled):
    data = squares if labelled else dataclasses.replace(squares, factors=None)
    splits = split(data)
    features = make_features(data, data.examples, splits, "a")
    rows = features(data.examples.batch(splits.train))
    assert rows.shape == (len(splits.train), features.width)
    np.testing.assert_allclose(rows.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(rows.std(0), 1, rtol=1e-4)
    assert ("classifier of side, level" in features.description) == labelled
    assert ("untrained" in features.description) == (not labelled)


@pytest.mark.parametrize("shape", [(1, 3, 3), (3, 64, 64), (1, 200, 50), (4, 1, 90)])
def test_images_of_any_size_have_as_many_features(shape):
    network = FeatureNetwork(shape).eval()
    features = network(torch.rand(6, *shape))
    assert features.shape == (6, classifier.WIDTH)
    assert (features.std(0) > 0).all()


def test_the_untrained_network_depends_on_the_seed_alone(squares):
    x, splits = squares.examples.batch(np.arange(4)), split(squares)
    first, again, other = (untrained(squares, splits, seed)(x) for seed in (0, 0, 1))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (first != other).any()


def test_columns_are_their_own_features_in_their_own_units():
    rng = np.random.default_rng(0)
    x = np.stack([1.7e9 + rng.normal(size=400), 1e-3 * rng.normal(size=400), np.full(400, 3.3)], axis=1)

    class Rows:
        shape = (3,)

        def __len__(self):
            return 400

        def batch(self, index):
            return torch.from_numpy(x[index])

    data = from_array(np.zeros((400, 3), np.float32), "any")
    splits = split(data)
    features = make_features(data, Rows(), splits, "a")
    rows = features(torch.from_numpy(x[splits.train]))
    np.testing.assert_allclose(rows.std(0), (1, 1, 0), atol=1e-6)
    assert "the columns" in features.description


def test_many_columns_are_mixed():
    data = from_array(np.random.default_rng(0).random((50, MOST_COLUMNS + 88), np.float32))
    features = make_features(data, data.examples, split(data), "a")
    assert features(data.examples.batch(np.arange(3))).shape == (3, MOST_COLUMNS)
    assert "random mixtures of the 600 columns" in features.description
