"""narrows beside its rivals, at an equal bound, on one machine: one row per set, method, seed and setting.

python studies/comparison.py --set table --method ard --seed 0
python studies/comparison.py --set mnist --mnist FOLDER --method bisection --seed 0
python studies/comparison.py --set cifar10 --cifar FILE --method narrows --seed 0
python studies/comparison.py --set table --method irmae --seed 0 --setting search
python studies/comparison.py --set dsprites --limit 300 --method narrows     a trial, see below

For a set and a seed, the widest plain VAE (n = 32; 64 for cifar10) is trained first, until its error settles, and tau
is 1.1 times its validation error. It stands in studies/results/comparison_bounds.csv, so that all methods share it.
Then the method is given what all methods are given (methods/problem.py), and its model is measured on the test split,
which no rival sees. docs/comparison.md explains the columns of studies/results/comparison.csv, which gets one row more.

With --limit, the widest model and every method may spend only so many batches, and the rows go to
runs/comparison-LIMIT instead.
"""

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cifar
import numpy as np
import torch
from common import RESULTS, Row, Table
from methods import METHODS
from methods.problem import LIMIT, Answer, Problem, codes_of, make_problem
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from narrows._util.allocator import keep_memory
from narrows.data import Data, Factors, from_array, load, thinned
from narrows.data.examples import in_batches
from narrows.data.factors import kinds
from narrows.data.named import mnist
from narrows.data.statistics import Moments
from narrows.data.synthetic import curved_manifold
from narrows.evaluation.features import make_features
from narrows.evaluation.frechet import frechet_distance
from narrows.inference.sampling import COMPONENTS, draw_examples, fit_sampler, posterior_samples
from narrows.model.vae import VAE
from narrows.runs.certificate import measure
from narrows.training.listeners import Listener
from narrows.training.sinks import MemorySink
from narrows.training.trainer import TEST_SEED, Trainer
from narrows.training.validation import per_input

SLACK = 1.1
"""tau is this times the widest model's validation error."""
SAMPLES, CODES = 5_000, 10_000
"""New examples for the distance, at most as many as there are test examples if these are fewer; and training codes
among which the nearest is looked for."""


@dataclass(frozen=True)
class Set:
    """One set."""

    read: Callable[[argparse.Namespace], Data]
    n: int = 32
    """Dimensions of the widest model."""
    label: str = ""
    """The factor that the nearest neighbour should share; none for a set without labels."""


def table() -> Data:
    """Return scikit-learn's digits as a table: 1,797 rows with 64 columns, 0 to 16."""
    found = load_digits()
    data = from_array(found.data.astype(np.float32), "any", "digits")
    return replace(data, factors=Factors((kinds("digit", "0123456789"),), found.target[:, None]))


def manifold() -> Data:
    """Return a drawn table: 20,000 rows with 50 columns on a curved manifold of 5 dimensions."""
    return from_array(curved_manifold(20_000, d=5, seed=0), "any", "manifold")


def _folder(arguments: argparse.Namespace, name: str, what: str) -> Path:
    path = getattr(arguments, name)
    if path is None or not path.exists():
        sys.exit(f"--set {arguments.set} needs --{name} {what}")
    return Path(path)


SETS = {
    "table": Set(lambda _: table(), label="digit"),
    "manifold": Set(lambda _: manifold()),
    "mnist": Set(lambda a: mnist.read(_folder(a, "mnist", "FOLDER, with its four .gz files")), label="digit"),
    "dsprites": Set(lambda _: load("dsprites", source="drawn"), label="shape"),
    "shapes3d": Set(lambda _: load("shapes3d", source="drawn"), label="shape"),
    "cifar10": Set(lambda a: cifar.read(_folder(a, "cifar", "FILE, a PNG of 100 rows of 200 images")), n=64),
}


def bound(name: str, data: Data, n: int, seed: int, limit: int) -> Row:
    """Train the widest plain VAE until its error settles; return its error, tau, and the target that this leaves."""
    problem = make_problem(data, n, seed, None, name, steps=limit)
    begun, sink = time.process_time(), MemorySink()
    result = Trainer(problem.plan, Listener(), problem.network).start(sink)
    tau = SLACK * result.validation.error
    bounded, splits = make_problem(data, n, seed, tau, name), problem.plan.splits
    assert sink.model is not None
    errors = per_input(sink.model, problem.examples, splits.validation, seed, problem.error)[0]
    return {
        "n": n,
        "validation_error": f"{result.validation.error:.6g}",
        "tau": f"{tau:.6g}",
        "target": f"{bounded.target(errors):.6g}",
        "batches": result.steps,
        "seconds": round(time.process_time() - begun),
        **made_by(),
    }


def compare(problem: Problem, method: str, setting: str, label: str) -> Row:
    """Run one method and measure the model that it returns."""
    begun = time.process_time()
    answer = METHODS[method].run(problem, setting)
    seconds = time.process_time() - begun
    return {
        "tau": f"{problem.tau:.6g}",
        **certified(problem, answer),
        "batches": answer.batches,
        "seconds": round(seconds),
        "frechet": distance(problem, answer.model),
        "nearest": nearest(problem, answer.model, label),
        "used": answer.setting,
        "limit": problem.limit,
        **made_by(),
    }


def certified(problem: Problem, answer: Answer) -> Row:
    """Return size, test error, its upper end, and whether tau is kept."""
    model, splits, terms = answer.model.eval(), problem.plan.splits, problem.plan.terms
    validation = per_input(model, problem.examples, splits.validation, problem.seed, problem.error)[0]
    errors = per_input(model, problem.examples, splits.test, TEST_SEED, problem.error)
    held = measure(*errors, terms, float(validation.std(ddof=1)))
    return {
        "dims": model.n,
        "error": f"{held.error:.6g}",
        "upper": f"{held.high:.6g}",
        "kept": terms.is_kept(held, problem.tau),
    }


def distance(problem: Problem, model: VAE) -> str:
    """Return the Frechet distance of new examples, from a mixture fitted to the codes, to the test examples."""
    if not model.n:
        return ""
    data, splits, seed = problem.plan.data, problem.plan.splits, problem.seed
    features = make_features(data, problem.examples, splits, f"{problem.plan.fingerprint} 0", seed)
    test = (features(x) for _, x in in_batches(problem.examples, thinned(splits.test, SAMPLES)))
    sampler = fit_sampler("mixture", posterior_samples(model, problem.examples, splits.train, seed), COMPONENTS, seed)
    drawn = (features(x) for x in draw_examples(model, sampler, SAMPLES, seed))
    return f"{frechet_distance(Moments.of(drawn, covariance=True), Moments.of(test, covariance=True)):.4g}"


def nearest(problem: Problem, model: VAE, label: str) -> str:
    """Return the share of test examples whose nearest training code has their label."""
    factors, splits = problem.plan.data.factors, problem.plan.splits
    if not label or not model.n or factors is None:
        return ""
    column = factors.names.index(label)
    train, test = thinned(splits.train, CODES), thinned(splits.test, CODES)
    of_train, of_test = (codes_of(model, problem, index).numpy() for index in (train, test))
    search = KNeighborsClassifier(1).fit(of_train, factors.of(train)[:, column])
    return f"{search.score(of_test, factors.of(test)[:, column]):.4f}"


def made_by() -> Row:
    """Return the machine and the commit."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    git = ["git", "-C", str(Path(__file__).parent)]
    commit = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True).stdout.strip()
    status = subprocess.run([*git, "status", "--porcelain", "--", ".", "../src"], capture_output=True, text=True).stdout
    changes = [line for line in status.splitlines() if not line.endswith(".csv")]
    machine = names[0] if names else platform.machine()
    return {"machine": f"{machine}, torch {torch.__version__}", "commit": commit + ("+" if changes else "")}


def main() -> None:
    """Run one method on one set with one seed, unless the row is there."""
    knobs = "\n".join(f"  {name:17} {method.knob}" for name, method in METHODS.items() if method.knob)
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"What --setting sets:\n{knobs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--set", required=True, choices=SETS)
    parser.add_argument("--method", required=True, choices=METHODS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--setting", help="the method's knob; by default its authors' setting")
    parser.add_argument("--mnist", type=Path, help="folder with MNIST's four .gz files")
    parser.add_argument("--cifar", type=Path, help="a PNG of 100 rows of 200 CIFAR-10 images")
    parser.add_argument("--limit", type=int, default=LIMIT, help="a limit on the batches, for a trial")
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    chosen, method = SETS[arguments.set], METHODS[arguments.method]
    setting = method.setting(arguments.set) if arguments.setting is None else arguments.setting
    folder = RESULTS if arguments.limit == LIMIT else Path(f"runs/comparison-{arguments.limit}")
    key: dict[str, Any] = {"set": arguments.set, "method": arguments.method, "seed": arguments.seed, "setting": setting}
    rows = Table("comparison", folder)

    def make() -> Row:
        data = chosen.read(arguments)
        name, seed, limit = arguments.set, arguments.seed, arguments.limit
        bounds = Table("comparison_bounds", folder)
        known = bounds.run(lambda: bound(name, data, chosen.n, seed, limit), set=name, seed=seed)
        problem = make_problem(data, chosen.n, seed, float(known["tau"]), name, limit)
        return compare(problem, arguments.method, setting, chosen.label)

    rows.run(make, **key)


if __name__ == "__main__":
    main()
