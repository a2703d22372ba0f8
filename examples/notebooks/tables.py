# %% [markdown]
# # Tables with gaps and categories
#
# Real tables have empty fields, columns that are not numbers, and rows that belong together. This notebook makes a small table
# with all three, so that you can compare the answers with the truth.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from narrows import NarrowVAE, TraversalDisplay

pd.set_option("display.precision", 1)
rng = np.random.default_rng(0)
patients, visits = 300, 4
patient = np.repeat(np.arange(patients), visits)


def noise(scale: float) -> np.ndarray:
    """Return a number for each visit."""
    return scale * rng.normal(size=len(patient))


# the two hidden numbers: a patient's own, and a little change between visits
size = rng.normal(size=patients)[patient] + noise(0.3)
fitness = rng.normal(size=patients)[patient] + noise(0.3)
sizes = ["S", "M", "L"]

truth = pd.DataFrame(
    {
        "height": 170 + 9 * (size + noise(0.15)),
        "weight": 70 + 11 * (size + noise(0.15)) - 3 * fitness,
        "shoe": np.round(41 + 2 * (size + noise(0.15))).astype(int),
        "pulse": 68 - 7 * (fitness + noise(0.15)),
        "run_5k": 29 - 4 * (fitness + noise(0.15)),
        "clothing": pd.Categorical.from_codes(
            np.digitize(size, [-0.5, 0.5]), sizes, ordered=True
        ),
        "athlete": fitness > 0.7,
    }
)
truth.head()

# %% [markdown]
# Two hidden numbers, *size* and *fitness*, decide everything but the noise. We now hide a tenth of four columns.

# %%
table = truth.copy()
gaps = ["height", "weight", "pulse", "clothing"]
for name in gaps:
    table.loc[rng.random(len(table)) < 0.1, name] = None
table.isna().sum()

# %% [markdown]
# ## Fit
#
# - `missing="mask"` says that an empty field is a value that nobody observed. Without it, gaps are refused.
# - `categories="auto"` makes categories of texts and of true and false. Columns that are categorical need no option.
# - `groups=patient` keeps all visits of a patient on one side of every split. Otherwise the test would be about people that the
#   model has met, and the certificate would be false.

# %%
model = NarrowVAE(
    explained=0.9,
    missing="mask",
    categories="auto",
    max_steps=1200,
    random_state=0,
)
model.fit(table, groups=patient)

# %% [markdown]
# The certificate counts patients, not rows:

# %%
print(model.n_components_, "dimensions; promise certified:", model.met_)
print(model.result_.heldout.count, "patients are in the test split")

# %% [markdown]
# ## What each dimension says about each column
#
# `feature_cost_` is by how much the error of a column rises when a dimension is removed. Every column has the same scale: it
# costs 1 if only its mean, or its frequencies, are known. A number above 1 is a column that would be decoded wrongly, and with
# confidence.

# %%
dimensions = [f"dimension {k + 1}" for k in range(model.n_components_)]
costs = pd.DataFrame(model.feature_cost_, model.feature_names_in_, dimensions)
costs.style.format("{:.2f}").background_gradient("Blues", vmin=0, vmax=2)

# %% [markdown]
# The table shows which columns share a dimension. The curves show the direction: how the columns change when one dimension moves
# and the others stay.

# %%
TraversalDisplay.from_estimator(model, table)
plt.show()

# %% [markdown]
# ## Fill in the gaps
#
# `impute` returns a table with the same columns and types. Observed values stay as they are.

# %%
full = model.impute(table)
full.head()

# %% [markdown]
# Here we know what was hidden, so we can measure how far the filled values are from the truth on average, each in the column's
# own unit. The simplest guess is the mean of the column, and for a category its most frequent level.

# %%
apart = {}
for name in ["height", "weight", "pulse"]:
    hidden = table[name].isna()
    true = truth[name][hidden]
    guesses = full[name], table[name].mean()
    apart[name] = [(guess - true).abs().mean() for guess in guesses]
pd.DataFrame(apart, index=["impute", "mean"]).T

# %%
hidden = table["clothing"].isna()
true = truth["clothing"][hidden]
filled, frequent = full["clothing"][hidden], table["clothing"].mode()[0]
print(f"right in {(filled == true).mean():.0%} of the gaps")
print(f"the most frequent size would be in {(true == frequent).mean():.0%}")

# %% [markdown]
# ## New rows
#
# `sample` draws rows that were never observed, as a table of the same kind.

# %%
model.sample(5, random_state=0)

# %% [markdown]
# What is promised about tables with gaps, weights and groups: [Tables](../../docs/tables.md).
