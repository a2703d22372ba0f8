# %% [markdown]
# # Images
#
# Each image here is a bright disc on a dark ground. Three numbers decide it: two for the place and one for the size. A good answer
# is therefore three dimensions, and we can look at what each of them does.

# %%
import matplotlib.pyplot as plt
import numpy as np

from narrows import (
    FrontDisplay,
    NarrowingDisplay,
    NarrowVAE,
    ReconstructionDisplay,
    TraversalDisplay,
)

rng = np.random.default_rng(0)
row, column = rng.uniform(5, 11, (2, 2000, 1, 1))
radius = rng.uniform(2, 4.5, (2000, 1, 1))
down, right = np.mgrid[:16, :16]
distance = np.hypot(down - row, right - column)  # (2000, 16, 16)
images = np.clip(radius - distance + 0.5, 0, 1)  # with soft edges

figure, axes = plt.subplots(1, 8, figsize=(8, 1.2), layout="constrained")
for image, ax in zip(images[:8], axes, strict=True):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.set_axis_off()
plt.show()

# %% [markdown]
# ## Fit
#
# An array of shape (N, H, W) or (N, H, W, C) is read as images, and the networks are convolutional. The model starts with eight
# dimensions.

# %%
model = NarrowVAE(8, explained=0.9, max_steps=900, width=8, random_state=0)
model.fit(images)

# %% [markdown]
# ## How training went
#
# First the error falls below tau, the accepted error. Then gates close. If the error does not come back after a closing, the model
# from before it is restored, as the charts above show. The multiplier weighs the error against everything else, and the tolerance
# hits are the recent share of batches whose error is within tau.

# %%
NarrowingDisplay.from_estimator(model)
plt.show()

# %% [markdown]
# ## What each dimension changes
#
# One row per dimension. It moves from the 1st to the 99th percentile of its codes, while the others stay.

# %%
TraversalDisplay.from_estimator(model, images)
plt.show()

# %% [markdown]
# ## What is lost
#
# The certificate is about the mean error, so look at the worst examples too. The last row is the difference: orange is too
# bright, blue is too dark.

# %%
ReconstructionDisplay.from_estimator(model, images, which="worst")
plt.show()

# %% [markdown]
# ## How many dimensions for which error?
#
# One promise gives one number. `front` answers for several promises in one run and returns a fitted estimator for each.

# %%
fitted = model.front(images, [2, 5, 10])
for bound, one in fitted.items():
    print(f"tau {bound:g}: dimensions {one.n_components_}, certified {one.met_}")

# %%
FrontDisplay.from_estimator(model)
plt.show()

# %% [markdown]
# Between two points, the larger model is the answer that is known to hold. More figures: [Displays](../../docs/displays.md).
