# %% [markdown]
# # Counts and single cells
#
# A row of counts says two things: how deeply it was sampled, and what it is. Only the second is of interest, and most of what differs
# between a count and its expectation is noise. `error="poisson"` knows both.

# %%
import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.neighbors import KNeighborsClassifier

from narrows import NarrowVAE
from narrows.anndata import fit_adata

# %% [markdown]
# ## Data with a known answer
#
# We draw 2,000 cells with 200 genes. Two hidden numbers decide the rates of all genes, and each cell is sampled to a different
# depth. The direction of the two numbers decides which of three types the cell is.

# %%
rng = np.random.default_rng(0)
hidden = rng.normal(size=(2000, 2))
kind = np.digitize(np.arctan2(*hidden.T), [-np.pi / 3, np.pi / 3])
rates = np.exp(0.5 * hidden @ rng.normal(size=(2, 200)))
rates /= rates.sum(1, keepdims=True)
depth = rng.uniform(100, 600, (2000, 1))
counts = scipy.sparse.csr_matrix(rng.poisson(depth * rates))
zeros = 1 - counts.nnz / np.prod(counts.shape)
print(f"{counts.shape[0]} cells, {counts.shape[1]} genes, {zeros:.0%} zeros")

# %% [markdown]
# ## Fit
#
# The sparse matrix goes in as it is, and is never written out in full. `explained` is here a share of what is *not noise*: narrows
# estimates, without a model, how much can be explained. The estimate is cautious: a model may explain more.

# %%
model = NarrowVAE(error="poisson", explained=0.9, max_steps=800, random_state=0)
model.fit(counts)

# %%
print(model.n_components_, "dimensions; promise certified:", model.met_)
print(f"share of the deviance explained: {model.score(counts):.3f}")
print(f"share that was estimated to be explainable: {model.explainable_:.3f}")
print("cost of removing each dimension:", model.dimension_cost_.round(1))

# %% [markdown]
# ## Codes do not depend on the depth
#
# We keep about half of the molecules of each cell and compute the codes again. What differs from those of all molecules is noise.

# %%
half = scipy.sparse.csr_matrix(rng.binomial(counts.toarray(), 0.5))
before, after = model.transform(counts), model.transform(half)
for k in range(model.n_components_):
    both = np.corrcoef(before[:, k], after[:, k])[0, 1]
    print(f"dimension {k + 1}: correlation {both:.3f}")

# %% [markdown]
# Decoding returns expected counts. `library_size` says for how many molecules.

# %%
expected = model.inverse_transform(before[:3], library_size=1000)
print(expected.shape, expected.sum(1).round(1))

# %% [markdown]
# ## Single cells
#
# `fit_adata` does the same for an AnnData. The codes are stored in `obsm`, where scanpy looks for them, and the answer in `uns`.
# Pass the counts as they were observed, in a layer if `X` was normalised.

# %%
names = pd.Index([f"cell{i}" for i in range(2000)], dtype=object)
genes = pd.Index([f"gene{j}" for j in range(200)], dtype=object)
types = pd.Categorical.from_codes(kind, ["A", "B", "C"])
cells = anndata.AnnData(
    counts.astype(np.float32).log1p(),
    obs=pd.DataFrame({"type": types}, index=names),
    var=pd.DataFrame(index=genes),
)
cells.layers["counts"] = counts
fit_adata(cells, layer="counts", explained=0.9, max_steps=800, random_state=0)

# %%
cells

# %%
answer = cells.uns["narrows"]
print(answer["dims"], "dimensions; promise certified:", answer["met"])

# %% [markdown]
# With scanpy, `sc.pp.neighbors(cells, use_rep="X_narrows")` comes next. Here we draw the codes themselves, coloured by the type, and
# ask how often the neighbours of a cell know its type.

# %%
codes = cells.obsm["X_narrows"]
for name in types.categories:
    points = codes[types == name]
    plt.scatter(points[:, 0], points[:, 1], s=6, alpha=0.7, label=f"type {name}")
plt.legend()
plt.xlabel("dimension 1")
plt.ylabel("dimension 2")
plt.show()

# %%
nearest = KNeighborsClassifier(15).fit(codes[:1500], types[:1500])
share = nearest.score(codes[1500:], types[1500:])
print(f"right for {share:.1%} of the other cells")

# %% [markdown]
# What a share of the explainable deviance is and is not, and when to use `error="negative-binomial"`:
# [Counts and single cells](../../docs/counts.md).
