"""Single cells: the codes of an AnnData's cells, where scanpy looks for them.

    from narrows.anndata import fit_adata

    model = fit_adata(adata, layer="counts", explained=0.8)
    sc.pp.neighbors(adata, use_rep="X_narrows")
    sc.tl.umap(adata)

It needs the package anndata: `pip install 'narrows[anndata]'`. Counts stay sparse. What is promised about counts, and
what the shares mean: docs/counts.md.
"""

import importlib.util
from typing import Any

import numpy as np

from narrows.estimator import NarrowVAE
from narrows.estimator.batches import levels, named
from narrows.estimator.narrow_vae import ErrorName

OBSM, UNS = "X_narrows", "narrows"
"""The names under which codes and answer are stored."""


def fit_adata(
    adata: Any,
    layer: str | None = None,
    batch_key: str | None = None,
    *,
    group_key: str | None = None,
    error: ErrorName = "poisson",
    **parameters: Any,
) -> NarrowVAE:
    """Fit a `NarrowVAE` to the cells of an AnnData and store their codes in it.

    Arguments:
        adata: The AnnData. `adata.obsm["X_narrows"]` becomes the codes of its cells, (cells, dimensions) float32, and
            `adata.uns["narrows"]` the answer: dims, tau, error, test_error, test_error_high, met, confidence,
            dimension_cost, for counts explainable, and with batches batch_key and batches, all of them plain values
            that .h5ad files can store.
        layer: The layer to fit to, of counts as they were observed; `adata.X` by default.
        batch_key: The column of `adata.obs` that names each cell's batch, from 2 to 50 of them; only for counts. The
            decoder is told the batch, so that codes need not describe it. To use the estimator on other cells, pass
            their batches: `model.transform(values, batch=...)`.
        group_key: The column of `adata.obs` that names each cell's group, such as its donor. A group is never divided
            between training, validation and test, and the certificate counts groups.
        error: As for `NarrowVAE`; here counts are the default.
        parameters: Of `NarrowVAE`, such as `explained`, `as_good_as`, `n_components` and `random_state`.

    Returns:
        The fitted estimator.

    Raises:
        ImportError: The package anndata is missing.
        TypeError: `adata` is not an AnnData, or there is no such parameter.
        ValueError: There is no such layer or column, the batches cannot be used, or the values cannot be trained on.
    """
    values = _values(adata, layer)
    batch = None if batch_key is None else _batches(adata, batch_key)
    groups = None if group_key is None else _column(adata, group_key, "group_key").to_numpy()
    model = NarrowVAE(error=error, **parameters).fit(values, groups=groups, batch=batch)
    adata.obsm[OBSM] = model.transform(values, batch=batch).astype(np.float32)
    adata.uns[UNS] = _answer(model)
    if batch_key is not None:
        adata.uns[UNS] |= {"batch_key": batch_key, "batches": np.array(model.batches_)}
    return model


def _batches(adata: Any, key: str) -> np.ndarray:
    """Return the batch of each cell as a text."""
    texts = named(_column(adata, key, "batch_key"), adata.n_obs, f"adata.obs[{key!r}]")
    levels(texts, f"adata.obs[{key!r}]")
    return texts


def _column(adata: Any, key: str, parameter: str) -> Any:
    """Return a column of `adata.obs`."""
    if key not in adata.obs:
        known = ", ".join(repr(name) for name in adata.obs) or "none"
        raise ValueError(f"{parameter} must be one of the columns of adata.obs ({known}), or None; it is {key!r}")
    return adata.obs[key]


def _values(adata: Any, layer: str | None) -> Any:
    """Return the matrix to fit to, in memory."""
    if importlib.util.find_spec("anndata") is None:
        raise ImportError("fit_adata needs the package anndata: pip install 'narrows[anndata]'")
    from anndata import AnnData  # not above: it is an extra

    if not isinstance(adata, AnnData):
        raise TypeError(f"adata must be an anndata.AnnData; it is {type(adata).__name__}")
    if layer is not None and layer not in adata.layers:
        known = ", ".join(map(repr, adata.layers)) or "none"
        raise ValueError(f"layer must be one of adata.layers ({known}), or None for adata.X; it is {layer!r}")
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise ValueError("adata.X is empty; name a layer with layer=")
    return values.to_memory() if hasattr(values, "to_memory") else values


def _answer(model: NarrowVAE) -> dict[str, Any]:
    """Return what was found, as values that .h5ad files can store."""
    result = model.result_
    answer: dict[str, Any] = {
        "dims": result.dims,
        "started_from": result.n,
        "tau": model.tau_,
        "error": model.error if isinstance(model.error, str) else "callable",
        "test_error": result.heldout.error,
        "test_error_high": result.heldout.high,
        "test_rows": result.heldout.count,
        "met": model.met_,
        "dimension_cost": model.dimension_cost_,
    }
    if result.certificate is not None:
        answer |= {"certificate": result.certificate.kind, "confidence": result.certificate.confidence}
    if result.null_deviance is not None and result.explainable is not None:
        answer |= {"null_deviance": result.null_deviance, "explainable": result.explainable}
    return answer
