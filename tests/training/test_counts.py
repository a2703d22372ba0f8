"""What is measured on counts before training, against the rates that they were drawn from."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from count_data import drawn_counts
from narrows._util.errors import NarrowsError
from narrows.data import from_array
from narrows.objective import count_values
from narrows.training.config import TrainConfig
from narrows.training.counts import measure_counts
from narrows.training.setup import make_plan


def measured(x, dispersed=False, weights=None):
    return measure_counts(from_array(x, "any").examples, np.arange(len(x)), weights, dispersed)


def deviance(x, mean, dispersion=None):
    a = None if dispersion is None else torch.full((x.shape[1],), dispersion, dtype=torch.float64)
    return float(count_values(a)(torch.from_numpy(x), torch.from_numpy(mean)).sum(1).mean())


def test_the_null_deviance_is_that_of_constant_proportions():
    x, _ = drawn_counts()
    found = measured(x)
    assert found.size == np.median(x.sum(1))
    np.testing.assert_allclose(found.proportion, x.sum(0) / x.sum(), rtol=1e-12)
    null = deviance(x, np.broadcast_to(x.sum(0), x.shape).copy())
    assert found.null == pytest.approx(null, rel=1e-9)
    logs = np.log1p(x * (found.size / x.sum(1, keepdims=True)))
    np.testing.assert_allclose(found.shift, logs.mean(0), rtol=1e-9)
    assert found.spread == pytest.approx(np.sqrt(logs.var(0).mean()), rel=1e-9)


@pytest.mark.parametrize(("total", "columns"), [(20, 300), (200, 60)])
def test_the_explainable_deviance_is_what_the_true_rates_explain(total, columns):
    """By the rates themselves, 0.5 of the log rates' standard deviation; sparse counts (93% zeros) or not."""
    x, mean = drawn_counts(8000, columns, d=4, total=total, spread=0.5)
    truth = deviance(x, np.broadcast_to(x.sum(0), x.shape).copy()) - deviance(x, mean)
    assert measured(x).explainable == pytest.approx(truth, rel=0.15)


def test_counts_of_constant_rates_have_nothing_to_explain():
    x = np.random.default_rng(0).poisson(np.full((8000, 50), 0.5)).astype(float)
    x = x[x.sum(1) > 0]
    found = measured(x)
    assert abs(found.explainable) < 0.01 * found.null
    with pytest.raises(NarrowsError, match=r"cannot be told from these counts: .* pass counts as"):
        make_plan(TrainConfig(explained=0.5, error="poisson"), from_array(0 * x + 3, "any"))


@pytest.mark.parametrize("dispersion", [0.2, 0.8])
def test_dispersions_are_those_that_were_drawn(dispersion):
    x, mean = drawn_counts(3000, 300, d=3, total=200, dispersion=dispersion, spread=0.7)
    found = measured(x, dispersed=True)
    assert found.proportion @ found.dispersion == pytest.approx(dispersion, rel=0.25)
    a = torch.from_numpy(found.dispersion)
    truth = found.null - float(count_values(a)(torch.from_numpy(x), torch.from_numpy(mean)).sum(1).mean())
    assert found.explainable == pytest.approx(truth, rel=0.35)


def test_poisson_counts_are_hardly_dispersed():
    x, _ = drawn_counts(4000, 80, d=3, total=400, spread=0.5)
    assert np.median(measured(x, dispersed=True).dispersion) < 0.03
    assert not measured(x).dispersion.any()


def test_a_row_of_weight_2_counts_as_two():
    x, _ = drawn_counts(60, 12)
    weight = np.random.default_rng(1).integers(1, 4, 60)
    weighted, repeated = measured(x, weights=weight.astype(float)), measured(np.repeat(x, weight, 0))
    for name in ("null", "explainable"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-9)
    np.testing.assert_allclose(weighted.proportion, repeated.proportion, rtol=1e-12)


def test_a_column_without_counts_gets_half_a_count():
    x, _ = drawn_counts(60, 12)
    x[:, 3] = 0
    found = measured(x)
    assert found.proportion[3] == pytest.approx(0.5 / (x.sum() + 0.5))
    assert np.isfinite([found.null, found.explainable]).all()


def test_bytes_are_counts_and_columns_are_not_scaled():
    x, _ = drawn_counts()
    plan = make_plan(TrainConfig(explained=0.5, error="poisson"), from_array(x.astype(np.uint8)))
    assert plan.data.examples.batch(np.arange(9)).tolist() == x[:9].tolist()
    counts = plan.moments.counts
    assert plan.tau == pytest.approx(counts.null - 0.5 * counts.explainable)
    assert plan.terms.limit is None, "nothing limits a deviance, so the certificate is approximate"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x - 1, "counts must be 0 or more; row 0, column"),
        (lambda x: x * (np.arange(len(x)) != 7)[:, None], "row 7 has no counts"),
        (lambda x: np.repeat(np.repeat(x[:, :4, None], 16, 1)[:, :16], 16, 2), "for whole vectors of counts"),
    ],
)
@pytest.mark.parametrize("error", ["poisson", "negative-binomial"])
def test_what_cannot_be_counts_is_refused(change, expected, error):
    with pytest.raises(NarrowsError, match=expected):
        make_plan(TrainConfig(explained=0.5, error=error), from_array(change(drawn_counts()[0]), "any"))


def test_counts_that_are_not_whole_are_pointed_out():
    x, _ = drawn_counts()
    config = TrainConfig(explained=0.5, error="poisson")
    assert make_plan(config, from_array(x, "any")).whole
    plan = make_plan(replace(config, explained=None, tau=1.0), from_array(x / 3, "any"))
    assert any("not all are whole numbers" in line for line in plan.header(0, "cpu"))


def test_a_promise_is_asked_for_with_the_numbers_that_help():
    with pytest.raises(NarrowsError, match=r"constant proportions have a deviance of .*, of which .* is not noise"):
        make_plan(TrainConfig(error="poisson"), from_array(drawn_counts()[0], "any"))
