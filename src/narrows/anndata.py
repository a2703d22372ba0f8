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
from narrows.estimator.narrow_vae import ErrorName

OBSM, UNS = "X_narrows", "narrows"
"""The names under which codes and answer are stored."""


def fit_adata(
    adata: Any,
    layer: str | None = None,
    batch_key: str | None = None,
    *,
    error: ErrorName = "poisson",
    **parameters: Any,
) -> NarrowVAE:
    """Fit a `NarrowVAE` to the cells of an AnnData and store their codes in it.

    Arguments:
        adata: The AnnData. `adata.obsm["X_narrows"]` becomes the codes of its cells, (cells, dimensions) float32, and
            `adata.uns["narrows"]` the answer: dims, tau, error, test_error, test_error_high, met, confidence,
            dimension_cost, and for counts explainable, all of them plain values that .h5ad files can store.
        layer: The layer to fit to, of counts as they were observed; `adata.X` by default.
        batch_key: Not supported yet: there is no decoder that is told the batch. The codes describe differences between
            batches like any other.
        error: As for `NarrowVAE`; here counts are the default.
        parameters: Of `NarrowVAE`, such as `explained`, `as_good_as`, `n_components` and `random_state`.

    Returns:
        The fitted estimator.

    Raises:
        ImportError: The package anndata is missing.
        TypeError: `adata` is not an AnnData, or there is no such parameter.
        ValueError: There is no such layer, `batch_key` is given, or the values cannot be trained on.
    """
    values = _values(adata, layer)
    if batch_key is not None:
        raise ValueError(
            f"batch_key={batch_key!r}: narrows has no decoder that is told the batch yet, so the codes would keep "
            "differences between batches; leave it out, or correct the codes afterwards, for example with Harmony"
        )
    model = NarrowVAE(error=error, **parameters).fit(values)
    adata.obsm[OBSM] = model.transform(values).astype(np.float32)
    adata.uns[UNS] = _answer(model)
    return model


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
