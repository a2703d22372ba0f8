# %% [markdown]
# # First steps
#
# How many numbers does it take to describe a handwritten digit? `NarrowVAE` answers such questions. You say how much of the
# variance must survive, and it trains an autoencoder that keeps as few latent dimensions as it can.

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from narrows import CodesDisplay, DimensionDisplay, NarrowVAE

digits = load_digits()
x, x_new, y, y_new = train_test_split(
    digits.data, digits.target, test_size=0.2, random_state=0
)
print(x.shape[0], "images with", x.shape[1], "pixels each")

# %% [markdown]
# ## Fit
#
# The promise here is that the model explains 80% of the variance. `max_steps` keeps this notebook quick. Without it, training ends by
# itself, once no more dimensions can close.

# %%
model = NarrowVAE(explained=0.8, max_steps=1500, random_state=0)
model.fit(x)

# %% [markdown]
# A fitted estimator shows its answer: the number of dimensions, whether the promise holds on rows that the training did not see, and
# how it got there. The same numbers are attributes.

# %%
print("dimensions:", model.n_components_)
print("promise certified:", model.met_)
print(f"explained on new images: {model.score(x_new):.3f}")

# %% [markdown]
# ## What each dimension is worth
#
# The columns of the codes are ordered by what they are worth, as those of PCA are. On the left, the error falls as more of them
# are decoded. On the right is how much the error rises when one of them is removed.

# %%
DimensionDisplay.from_estimator(model)
plt.show()

# %% [markdown]
# ## Codes
#
# `transform` returns the codes. Here are the first two, coloured by the digit. The training never saw these labels.

# %%
codes = model.transform(x)
print("codes:", codes.shape)
CodesDisplay.from_estimator(model, x, y)
plt.show()

# %% [markdown]
# ## And back
#
# `inverse_transform` turns codes into images. The upper row shows new images, the lower row what is left of them.

# %%
again = model.inverse_transform(model.transform(x_new[:8]))
figure, axes = plt.subplots(2, 8, figsize=(8, 2.2), layout="constrained")
for column in range(8):
    axes[0, column].imshow(x_new[column].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    axes[1, column].imshow(again[column].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
for ax in axes.flat:
    ax.set_axis_off()
plt.show()

# %% [markdown]
# ## Beside PCA
#
# The codes of PCA are linear, so it may need more components for the same share. This cell adds components until PCA explains as
# much of the new images as the model does.

# %%
share = model.score(x_new)
total = ((x_new - x.mean(0)) ** 2).sum()
for components in range(1, x.shape[1] + 1):
    pca = PCA(components).fit(x)
    left = ((x_new - pca.inverse_transform(pca.transform(x_new))) ** 2).sum()
    if 1 - left / total >= share:
        break
print(f"NarrowVAE: {model.n_components_} dimensions explain {share:.3f}")
print(f"PCA: {components} components explain {1 - left / total:.3f}")

# %% [markdown]
# ## Where to go on
#
# - [Tables](tables.ipynb) with gaps and categories.
# - [Images](images.ipynb), and what each dimension changes in them.
# - [Counts](counts.ipynb), sparse matrices and single cells.
# - [Your own networks](own_networks.ipynb) in PyTorch.
# - Pipelines, searches and saved models: [In scikit-learn](../../docs/scikit-learn.md).
