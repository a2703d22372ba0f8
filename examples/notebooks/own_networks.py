# %% [markdown]
# # Your own networks
#
# `GatedVAE` puts one gate per latent dimension between any PyTorch encoder and decoder, and `Fast` decides when gates close. The
# loop, the optimiser and the data stay yours.

# %%
import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from narrows import Controller, Fast, GatedVAE, Terms, make_optimiser
from narrows.networks import Scaling
from narrows.objective import squared_error

# %% [markdown]
# ## Data with a known answer
#
# Short waves, sampled at 40 places. Frequency and phase decide each of them, so two dimensions are enough.

# %%
generator = torch.Generator().manual_seed(0)
place = torch.linspace(0, 2, 40)
frequency = 1 + 0.5 * torch.rand(4000, 1, generator=generator)
phase = 2 * torch.rand(4000, 1, generator=generator)
noise = 0.02 * torch.randn(4000, 40, generator=generator)
waves = torch.sin(3 * frequency * place + phase) + noise
train, validation, test = waves[:3200], waves[3200:3600], waves[3600:]

plt.figure(figsize=(6, 2.4))
plt.plot(place, waves[:6].T)
plt.xlabel("place")
plt.show()

# %% [markdown]
# ## An encoder and a decoder
#
# `encoder(x)` returns the mean and the log standard deviation, together along axis 1. `decoder(z)` returns the reconstruction. These
# two use one-dimensional convolutions, which narrows does not have itself.

# %%
dimensions = 6
torch.manual_seed(0)
encoder = nn.Sequential(
    nn.Unflatten(1, (1, 40)),
    nn.Conv1d(1, 16, 5, stride=2, padding=2),
    nn.SiLU(),
    nn.Conv1d(16, 16, 5, stride=2, padding=2),
    nn.SiLU(),
    nn.Flatten(),
    nn.Linear(16 * 10, 2 * dimensions),
)
decoder = nn.Sequential(
    nn.Linear(dimensions, 64),
    nn.SiLU(),
    nn.Linear(64, 64),
    nn.SiLU(),
    nn.Linear(64, 40),
)
scaling = Scaling("linear", (40,))  # or none, if the networks take data as they are
scaling.fit(train.mean(0), train.std())
model = GatedVAE(encoder, decoder, latent=dimensions, scaling=scaling)

# %% [markdown]
# ## The promise
#
# tau bounds the squared differences, summed over one wave. Here it leaves 3% of the variance. `Fast` needs a way to draw held-out
# examples, because it decides by their error and not by the error that is being trained.

# %%
tau = 0.03 * train.var(0).sum().item()


def held_out(count: int, generator: torch.Generator) -> Tensor:
    """Return `count` examples of the validation split."""
    rows = torch.randint(len(validation), (count,), generator=generator)
    return validation[rows]


limit = Controller(steps=1500)  # leave it out, and training ends by itself
sizes = len(validation), len(test)
fast = Fast(model, tau, held_out, sizes, controller=limit)
optimiser = make_optimiser(fast, 2e-3)

# %% [markdown]
# ## The loop
#
# Calling `fast` gives the loss. After your optimiser's step, `after_step` measures, closes gates, undoes a closing that
# failed, and sets `done` at the end. It returns what it decided: `restore` undoes a closing after which the error did not come back
# in time.

# %%
batches, errors, open_gates = [], [], []
while not fast.done:
    batch = train[torch.randint(len(train), (64,), generator=generator)]
    loss, record = fast(batch, fast.noise(64, generator))
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    decision = fast.after_step(optimiser)
    if decision is not None and decision.gates:
        print("batch", fast.controller.step, decision.action, decision.gates)
    batches.append(fast.controller.step)
    errors.append(record.error.item())
    open_gates.append(len(model.gates.kept()))

# %%
figure, (above, below) = plt.subplots(2, sharex=True, figsize=(6, 4))
above.semilogy(batches, errors, lw=0.7, label="error of the batch")
above.axhline(tau, color="black", ls="--", label="tau")
above.legend()
below.plot(batches, open_gates, drawstyle="steps-post")
below.set(xlabel="batch", ylabel="open gates", ylim=(0, dimensions + 0.5))
plt.show()

# %% [markdown]
# ## The smaller model
#
# `narrow` removes the closed dimensions from your layers: the last layer of the encoder and the first of the decoder have fewer
# units, and the gates are gone.

# %%
smaller = fast.monitor.averaged.narrow().eval()
print(smaller.encoder)
print(smaller.decoder)

# %% [markdown]
# ## Does the promise hold?
#
# The test split had no part in any decision. `Terms().upper` is the upper end of the mean error with 95% confidence.

# %%
with torch.no_grad():
    again = smaller.reconstruct(test, generator)
    lost = squared_error(test, again).double().numpy()
print(f"{smaller.n} dimensions, error {lost.mean():.3f}")
print(f"at most {Terms().upper(lost):.3f} with 95% confidence; tau is {tau:.3f}")

# %%
plt.figure(figsize=(6, 2.4))
for k in range(3):
    plt.plot(place, test[k], ".", color=f"C{k}", ms=4)
    plt.plot(place, again[k], color=f"C{k}")
plt.xlabel("place")
plt.title("Points: test waves. Lines: their reconstructions", fontsize="medium")
plt.show()

# %% [markdown]
# [In your own loop](../../docs/own-loop.md) goes on: checkpoints, several bounds at once, the paper's algorithm, and gates with a loss
# of yours.
