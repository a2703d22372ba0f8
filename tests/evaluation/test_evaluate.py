"""narrows evaluate: a run's model and its samples on the test split, from the command line and in Python."""

import csv
import dataclasses
import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

import narrows
from commands import small
from narrows.cli import main
from narrows.data import Factors, load, split
from narrows.data.factors import kinds
from narrows.data.statistics import Moments
from narrows.evaluation.features import make_features
from narrows.evaluation.frechet import frechet_distance
from narrows.model.storage import load_model
from narrows.runs.evaluation import ACTIVE, Evaluation
from narrows.runs.folder import RunFolder

SAMPLERS = ["prior", "gaussian", "mixture"]


def read_evaluation(run):
    return Evaluation.from_json(RunFolder(run).evaluation.read_text())


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NARROWS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def train(data, out, *options):
    settings = [*options, "--steps=60", f"--out={out}"]
    assert main(["train", str(data), *settings]) == 0
    return out


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    return train(images, tmp_path_factory.mktemp("runs") / "narrow", "--tau=60", *small(recipe="fast"))


@pytest.fixture(scope="module")
def plain(images, tmp_path_factory):
    return train(images, tmp_path_factory.mktemp("runs") / "plain", *small(recipe="plain", n=3))


def test_a_run_against_a_plain_one(run, plain, images, capsys):
    assert main(["evaluate", str(run), "--against", str(plain), "--samples", "300"]) == 0
    out = capsys.readouterr().out
    evaluation = read_evaluation(run)
    assert Evaluation.from_json(evaluation.to_json()) == evaluation
    content = json.loads((run / "evaluation.json").read_text())
    assert content["run"]["samples"] == evaluation.run.samples
    for measured, folder in ((evaluation.run, run), (evaluation.against, plain)):
        result = RunFolder(folder).read_result()
        assert asdict(measured.heldout) == pytest.approx(asdict(result.heldout), rel=1e-6)  # its inputs and noise
        assert measured.dims == result.dims == len(measured.units)
        assert [unit.kept for unit in measured.units] == result.kept
        assert list(measured.samples) == SAMPLERS
        assert min([*measured.samples.values(), measured.reconstructions]) > evaluation.real > 0
        assert f"{result.heldout.error:.4g} (at most {result.heldout.high:.4g})" in out
        for number in (measured.reconstructions, *measured.samples.values()):
            assert f"{number:.4g}" in out
    assert (evaluation.test, evaluation.count, evaluation.codes, evaluation.components) == (30, 300, 240, 10)
    assert "untrained convolutional network, because these images have no labels" in out
    assert "30 examples are few for 64 features" in out
    assert not (plain / "evaluation.json").exists()
    assert main(["evaluate", str(run), "--samples", "300"]) == 0
    alone = read_evaluation(run)
    assert alone.against is None
    assert alone.run == evaluation.run  # same seed, same numbers


def test_every_number_is_what_its_name_says(run, images, tmp_path):
    """Each recomputed from the saved model and the files that other commands write."""
    assert main(["evaluate", str(run), "--samples", "300", "--seed", "5"]) == 0
    evaluation = read_evaluation(run)
    model, data = load_model(run / "model.safetensors"), load(images)
    splits = split(data)
    x = data.examples.batch(splits.test)
    with torch.no_grad():
        mean, log_std = model.encode(x)
    kl = (torch.exp(2 * log_std) + mean**2 - 1 - 2 * log_std).mean(0) / 2
    np.testing.assert_allclose([unit.kl for unit in evaluation.run.units], kl, rtol=1e-4)
    np.testing.assert_allclose([unit.variance for unit in evaluation.run.units], mean.var(0), rtol=1e-4)
    assert evaluation.run.active == (mean.var(0) > ACTIVE).sum()
    features = make_features(data, data.examples, splits, "", seed=5)
    test = Moments.of([features(x)], covariance=True)
    train = Moments.of([features(data.examples.batch(splits.train))], covariance=True)
    assert evaluation.real == pytest.approx(frechet_distance(train, test), rel=1e-4)
    with torch.no_grad():
        again = Moments.of([features(model.reconstruct(x))], covariance=True)
    assert evaluation.run.reconstructions == pytest.approx(frechet_distance(again, test), rel=1e-4)
    for sampler in SAMPLERS:
        arguments = ["--sampler", sampler, "--count", "300", "--seed", "5", "-o", str(tmp_path / f"{sampler}.npy")]
        assert main(["sample", str(run), *arguments]) == 0
        made = torch.from_numpy(np.load(tmp_path / f"{sampler}.npy"))[:, None]
        expected = frechet_distance(Moments.of([features(made)], covariance=True), test)
        assert evaluation.run.samples[sampler] == pytest.approx(expected, rel=1e-4)


def test_labelled_images_are_compared_by_a_classifier(run, images, capsys):
    """In Python, with data that have labels: is the square in the upper half?"""
    x = np.load(images)
    labels = (x[:, :14].sum((1, 2)) > x[:, 14:].sum((1, 2))).astype(np.int64)[:, None]
    data = dataclasses.replace(load(images), factors=Factors((kinds("half", ("lower", "upper")),), labels))
    evaluation = narrows.evaluate(run, samples=50, components=2, data=data)
    assert evaluation.accuracy["half"] > 0.7
    assert evaluation.features.startswith("64, of a small classifier of half; accuracy on the validation split: half ")
    assert evaluation.components == 2


def test_a_tables_columns_are_the_features(tmp_path, capsys):
    rng = np.random.default_rng(0)
    height = rng.normal(1.7, 0.1, 300)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "weight", "born"])
        for h, noise, born in zip(height, rng.normal(0, 3, 300), rng.normal(1.7e9, 50, 300), strict=True):
            writer.writerow([h, 25 * h**2 + noise, born])
    train(tmp_path / "t.csv", tmp_path / "run", "--explained=0.5", *small(recipe="fast", n=3, width=8))
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "features: 3, the columns, standardised" in out
    assert "are few for" not in out  # 30 test inputs for 3 columns
    evaluation = read_evaluation(tmp_path / "run")
    assert evaluation.run.heldout.error == pytest.approx(
        RunFolder(tmp_path / "run").read_result().heldout.error, rel=1e-3
    )
    assert evaluation.real < 1  # a total variance of 3: in the columns' own units, seconds since 1970 too
    assert max(evaluation.run.samples.values()) < 6


def test_bad_input_gets_one_line_and_nothing_is_written(run, plain, images, tmp_path, capsys):
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "config.json").write_bytes((run / "config.json").read_bytes())
    np.save(tmp_path / "other.npy", 255 - np.load(images))
    other = train(tmp_path / "other.npy", tmp_path / "other", "--tau=60", *small(recipe="fast"))
    elsewhere = train(images, tmp_path / "elsewhere", "--tau=60", *small(recipe="fast", split_seed=1))
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((60, 3)))
    rows = train(tmp_path / "rows.npy", tmp_path / "rows", "--tau=1", *small(recipe="fast", n=2))
    (run / "evaluation.json").unlink(missing_ok=True)
    model = str(run / "model.safetensors")
    capsys.readouterr()
    for arguments, expected in (
        ([str(tmp_path / "no")], "is not a run folder"),
        ([str(begun)], "has no model yet; continue it with `narrows resume"),
        ([model], "is only a model file, but evaluation needs the run's test split; pass the run's folder instead"),
        ([str(run), "--against", str(tmp_path / "no")], "is not a run folder"),
        ([str(run), "--against", str(begun)], "has no model yet"),
        ([str(run), "--against", str(other)], "have different data; compare runs on the same data"),
        ([str(run), "--against", str(rows)], "have different data"),
        ([str(run), "--against", str(elsewhere)], "have different test inputs; compare runs of one --split-seed"),
        (
            [str(run), "--samples", "0"],
            "--samples must be a whole number from 2, so that they vary, to",
        ),
        ([str(run), "--samples", "2.5"], "--samples must be a whole number; it is 2.5"),
        ([str(run), "--components", "0"], "--components must be a whole number from 1 on; it is 0"),
        (
            [str(run), "--components", "200"],
            "a mixture of 200 needs 400 codes or more; there are 240; use fewer",
        ),
        ([str(run), "--seed", "-1"], "--seed must be a whole number between 0 and 2^63; it is -1"),
    ):
        _refused(["evaluate", *arguments], expected, capsys)
    for arguments, expected in (
        (
            [model, "--sampler", "mixture"],
            "a mixture is fitted to the training split; pass the run's folder instead",
        ),
        ([str(run), "--sampler", "kernel"], "kernel"),
        ([str(run), "--sampler", "mixture", "--components", "200"], "a mixture of 200 needs 400 codes or more"),
    ):
        _refused(["sample", *arguments, "-o", str(tmp_path / "x.npy")], expected, capsys)
    assert not (tmp_path / "x.npy").exists()
    assert not list(run.glob("*evaluation.json*"))


def test_changed_data_are_refused(images, tmp_path, capsys):
    """The test split of other data may hold what the model was trained on."""
    np.save(tmp_path / "x.npy", np.load(images))
    folder = train(tmp_path / "x.npy", tmp_path / "run", "--tau=60", *small(recipe="fast"))
    np.save(tmp_path / "x.npy", np.load(images)[::-1])
    capsys.readouterr()
    _refused(["evaluate", str(folder)], "is not what", capsys)


def _refused(arguments, expected, capsys):
    assert main(arguments) == 2, arguments
    error = capsys.readouterr().err
    assert error.startswith("narrows: error: "), arguments
    assert error.count("\n") == 1
    assert expected in error, error
