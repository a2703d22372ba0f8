"""Single cells: the codes and the answer in an AnnData, in a file, and in scanpy's graph of neighbours."""

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp

from count_data import drawn_counts
from narrows import NarrowVAE
from narrows.anndata import fit_adata

pytestmark = [
    pytest.mark.filterwarnings("ignore:the promise is not certified"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SMALL = {"n_components": 4, "explained": 0.5, "max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}
X, _ = drawn_counts(400, 30)


@pytest.fixture
def cells():
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    pandas = pytest.importorskip("pandas")
    names = [
        pandas.Index([f"{what}{i}" for i in range(count)], dtype=object) for what, count in (("c", 400), ("g", 30))
    ]
    obs, var = (pandas.DataFrame(index=index) for index in names)
    found = anndata.AnnData(sp.csr_matrix(np.log1p(X)), obs, var)
    found.layers["counts"] = sp.csr_matrix(X.astype(np.int64))
    return found


def test_codes_and_answer_are_stored_and_survive_a_file(cells, tmp_path):
    import anndata

    model = fit_adata(cells, "counts", **SMALL)
    alone = NarrowVAE(error="poisson", **SMALL).fit(X)
    expected = alone.transform(X).astype(np.float32)
    assert np.array_equal(cells.obsm["X_narrows"], expected)
    assert np.array_equal(model.transform(X).astype(np.float32), expected)
    answer = cells.uns["narrows"]
    assert (answer["dims"], answer["tau"], answer["error"]) == (model.n_components_, model.tau_, "poisson")
    assert (answer["met"], answer["certificate"], answer["confidence"]) == (model.met_, "approximate", 0.95)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert np.array_equal(again.obsm["X_narrows"], expected)
    assert again.uns["narrows"].keys() == answer.keys()
    for name, value in answer.items():
        assert np.array_equal(again.uns["narrows"][name], value), name


def test_cells_in_a_file_need_not_be_read_first(cells, tmp_path):
    import anndata

    cells.X = cells.layers["counts"]
    cells.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    fit_adata(backed, **SMALL)
    fit_adata(cells, **SMALL)
    assert np.array_equal(backed.obsm["X_narrows"], cells.obsm["X_narrows"])


def test_other_errors_take_other_values(cells):
    model = fit_adata(cells, error="squared", **SMALL)
    assert model.error == "squared"
    assert "explainable" not in cells.uns["narrows"]


def test_scanpy_finds_neighbours_by_the_codes(cells):
    scanpy = pytest.importorskip("scanpy", reason="scanpy is not installed")
    fit_adata(cells, "counts", **SMALL)
    scanpy.pp.neighbors(cells, use_rep="X_narrows", n_neighbors=5)
    scanpy.tl.umap(cells)
    assert cells.obsm["X_umap"].shape == (400, 2)
    assert cells.uns["neighbors"]["params"]["use_rep"] == "X_narrows"


def test_batches_are_told_and_stored(cells, tmp_path):
    import anndata
    import pandas

    names = np.array(["b", "a", "c"])[np.arange(400) % 3]
    cells.obs["run"] = pandas.Categorical(names, pandas.Index(["a", "b", "c"], dtype=object))
    model = fit_adata(cells, "counts", "run", **SMALL)
    alone = NarrowVAE(error="poisson", **SMALL).fit(X, batch=names)
    assert np.array_equal(cells.obsm["X_narrows"], alone.transform(X, batch=names).astype(np.float32))
    assert model.batches_ == ("a", "b", "c")
    cells.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    stored = again.uns["narrows"]
    assert (stored["batch_key"], list(stored["batches"])) == ("run", ["a", "b", "c"])
    kept = model.transform(again.layers["counts"], batch=again.obs["run"]).astype(np.float32)
    assert np.array_equal(kept, again.obsm["X_narrows"]), "cells and names from a file are the same ones"


def test_batches_that_cannot_be_used_are_refused(cells):
    import pandas

    cells.obs["one"] = "same"
    cells.obs["gaps"] = pandas.Categorical(np.where(np.arange(400) == 5, None, np.arange(400) % 2))
    cells.obs["many"] = np.arange(400) % 51
    with pytest.raises(
        ValueError, match=r"batch_key must be one of .* \('one', 'gaps', 'many'\), or None; it is 'run'"
    ):
        fit_adata(cells, "counts", "run", **SMALL)
    for key, expected in {
        "one": r"adata.obs\['one'\] must name from 2 to 50 batches; it names 1: leave it out",
        "gaps": r"adata.obs\['gaps'\] must name a batch for every row; row 5 has none",
        "many": r"adata.obs\['many'\] must name from 2 to 50 batches; it names 51: join",
    }.items():
        with pytest.raises(ValueError, match=expected):
            fit_adata(cells, "counts", batch_key=key, **SMALL)
    cells.obs["good"] = np.arange(400) % 2
    with pytest.raises(ValueError, match="batch is for counts"):
        fit_adata(cells, "counts", "good", **SMALL, error="squared")
    assert "narrows" not in cells.uns


def test_what_cannot_be_fitted_is_said(cells):
    with pytest.raises(ValueError, match=r"layer must be one of adata.layers \('counts'\), or None .* it is 'raw'"):
        fit_adata(cells, "raw")
    with pytest.raises(TypeError, match=r"adata must be an anndata.AnnData; it is ndarray"):
        fit_adata(X)
    with pytest.raises(TypeError, match="latent_dims"):
        fit_adata(cells, latent_dims=3)
    cells.layers["scaled"] = np.asarray(X - X.mean(0))
    with pytest.raises(ValueError, match="counts must be 0 or more"):
        fit_adata(cells, "scaled", **SMALL)
    assert "narrows" not in cells.uns, "nothing is stored of a fit that failed"


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "anndata" else found(name, *more)
    )
    with pytest.raises(ImportError, match=r"needs the package anndata: pip install 'narrows\[anndata\]'"):
        fit_adata(object())
