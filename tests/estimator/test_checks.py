"""scikit-learn's own checks of an estimator: all of them for two sets of parameters, and those that training may break
for the others.
"""

import os
import subprocess
import sys
import warnings
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from commands import HANGS
from estimator.examples import SMALL
from narrows import NarrowVAE

FEW = {**SMALL, "max_steps": 4}
WHOLE = {"defaults": FEW, "mask": {**FEW, "missing": "mask"}}
OTHERS = {
    "absolute": {"error": "absolute", "tau": 1.0},
    "tau": {"tau": 1.0},
    "paper": {"recipe": "paper"},
    "mlp": {"network": "mlp", "batch_size": 8},
    "categories": {"categories": "auto"},
    "warm": {"warm_start": True},
}
SOME = (
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_pipeline_consistency",
    "check_sample_weights_list",
    "check_transformer_general",
)
ENVIRONMENT = "check_array_api_input"
"""Needs SCIPY_ARRAY_API=1 from the start of the process, and is skipped by scikit-learn without it."""
NEVER = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
"""Repeated rows are other splits and batches than weighted ones, so the two fits find other models (docs/tables.md)."""
CONSECUTIVE = ("check_pipeline_consistency", "check_transformer_general", "check_transformer_data_not_an_array")
"""Fit one estimator twice and expect the same; a warm start goes on from the first fit."""


def checks():
    for name, parameters in {**WHOLE, **{name: {**FEW, **more} for name, more in OTHERS.items()}}.items():
        for i, (_, check) in enumerate(estimator_checks_generator(NarrowVAE(**parameters))):
            asked = check.func.__name__
            if asked not in (ENVIRONMENT, *NEVER) and (name in WHOLE or asked in SOME):
                yield pytest.param(check, parameters, id=f"{name}-{i}-{asked}")


def run(check, parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", "the promise is not certified")
        warnings.filterwarnings("ignore", ".*dimensions are enough")
        check(NarrowVAE(**parameters))


@pytest.mark.parametrize(("check", "parameters"), list(checks()))
def test_scikit_learns_own_checks(check, parameters):
    if parameters.get("warm_start") and check.func.__name__ in CONSECUTIVE:
        with pytest.raises(SkipTest, match="non deterministic"):
            run(check, parameters)
    else:
        run(check, parameters)


@pytest.mark.parametrize("name", NEVER)
def test_weights_are_not_repetitions(name):
    check = next(check for _, check in estimator_checks_generator(NarrowVAE(**FEW)) if check.func.__name__ == name)
    with pytest.raises((AssertionError, ValueError), match=r"Not equal|weight 0"):
        run(check, FEW)


ARRAYS = f"""
import warnings
from sklearn.utils.estimator_checks import estimator_checks_generator
from estimator.test_checks import FEW
from narrows import NarrowVAE

warnings.simplefilter("ignore")
for _, check in estimator_checks_generator(NarrowVAE(**FEW)):
    if check.func.__name__ == {ENVIRONMENT!r}:
        check(NarrowVAE(**FEW))
        print("checked")
"""


def test_the_check_of_other_array_libraries():
    if ENVIRONMENT not in [check.func.__name__ for _, check in estimator_checks_generator(NarrowVAE(**FEW))]:
        pytest.skip(f"this version of scikit-learn has no {ENVIRONMENT}")
    settings = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ARRAYS], env=settings, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.stdout == "checked\n", done.stderr
