# %% [markdown]
# # Images
#
# Each image here is a bright disc on a dark ground. Three numbers decide it: two for the place and one for the size. A good answer
# is therefore three dimensions, and we can see whether they mean what they should.

# %%
import matplotlib.pyplot as plt
import numpy as np

from narrows import FrontDisplay, NarrowingDisplay, NarrowVAE, ReconstructionDisplay, TraversalDisplay

rng = np.random.default_rng(0)
row, column = rng.uniform(5, 11, (2, 2000, 1, 1))
radius = rng.uniform(2, 4.5, (2000, 1, 1))
down, right = np.mgrid[:16, :16]
images = np.clip(radius - np.hypot(down - row, right - column) + 0.5, 0, 1)  # (2000, 16, 16), with soft edges

figure, axes = plt.subplots(1, 8, figsize=(8, 1.2), layout="constrained")
for image, ax in zip(images, axes, strict=False):
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
# From top to bottom: the error falls to the target; gates close one after the other, and each closing makes the error jump for
# a moment; the multiplier weighs the error against everything else.

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
tau = model.tau_
fitted = model.front(images, [tau, 3 * tau, 6 * tau])
for bound, estimator in fitted.items():
    print(f"error at most {bound:.1f}: {estimator.n_components_} dimensions, certified: {estimator.met_}")

# %%
FrontDisplay.from_estimator(model)
plt.show()

# %% [markdown]
# An accepted error far below the first step asks for more dimensions, and one far above the last for fewer. Where the staircase
# is flat, a stricter promise costs nothing.
