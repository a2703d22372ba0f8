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

rng = np.random.default_rng(0)
patients, visits = 300, 4
patient = np.repeat(np.arange(patients), visits)
size = rng.normal(size=patients)[patient] + 0.3 * rng.normal(size=len(patient))  # the two hidden numbers
fitness = rng.normal(size=patients)[patient] + 0.3 * rng.normal(size=len(patient))


def noise() -> np.ndarray:
    """Return a little noise for each row."""
    return 0.15 * rng.normal(size=len(patient))


truth = pd.DataFrame(
    {
        "height": 170 + 9 * (size + noise()),
        "weight": 70 + 11 * (size + noise()) - 3 * fitness,
        "shoe": np.round(41 + 2 * (size + noise())).astype(int),
        "pulse": 68 - 7 * (fitness + noise()),
        "run_5k": 29 - 4 * (fitness + noise()),
        "clothing": pd.Categorical(np.select([size < -0.5, size < 0.5], ["S", "M"], "L"), ["S", "M", "L"], ordered=True),
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
model = NarrowVAE(explained=0.7, missing="mask", categories="auto", max_steps=1200, random_state=0)
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
# costs 1 if only its mean, or its frequencies, are known.

# %%
dimensions = [f"dimension {k + 1}" for k in range(model.n_components_)]
pd.DataFrame(model.feature_cost_, index=model.feature_names_in_, columns=dimensions).round(2)

# %% [markdown]
# Which column belongs to which hidden number can be read off this table. The curves show the direction: how the columns change
# when one dimension moves and the others stay.

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
# Here we know what was hidden, so we can measure. The model is compared with the simplest guess, a column's mean or its most
# frequent level.

# %%
rows = []
for name in gaps:
    hidden = table[name].isna()
    if name == "clothing":
        likeliest = table[name].mode()[0]
        rows.append(
            (name, "share right", (full[name] == truth[name])[hidden].mean(), (truth[name] == likeliest)[hidden].mean())
        )
    else:
        ours = (full[name] - truth[name])[hidden].abs().mean()
        rows.append((name, "mean difference", ours, (table[name].mean() - truth[name])[hidden].abs().mean()))
pd.DataFrame(rows, columns=["column", "measure", "impute", "mean or most frequent"]).round(2)

# %% [markdown]
# ## New rows
#
# `sample` draws rows that were never observed, as a table of the same kind.

# %%
model.sample(5, random_state=0)

# %% [markdown]
# What a certificate says about tables with gaps, weights and groups is on the page *Tables*.
