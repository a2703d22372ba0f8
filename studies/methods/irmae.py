"""IRMAE: Jing, Zbontar and LeCun, "Implicit rank-minimizing autoencoder" (NeurIPS 2020).

An autoencoder, without noise, with l square linear layers, without biases, between encoder and decoder. They change
nothing that it can express, but gradient descent through them prefers codes of low rank. After training they are
multiplied into one matrix, and codes have large variances in few directions only.

Choices of ours
1. l is 8 for MNIST and 4 elsewhere: the authors' 8 and 4, for MNIST and for photographs of faces. `--setting search`
   trains with 2, 4 and 8 layers and takes the smallest size within the target, or if there is none, the smallest error;
   all trainings are counted.
2. The authors look at the singular values and give no rule that counts them. Ours is that of the bound: the codes are
   projected on their first k principal components, and k is the smallest, by bisection, whose error on the validation
   split is within the target. Nothing is trained afterwards.
3. The codes have n = 32 dimensions at the start, as for every method; the authors' have 128 and more.
4. The linear layers begin as torch begins them and are trained with Adam, also where other layers have Muon, whose
   updates have full rank. The rate is that of all methods; the authors' is 0.0001.
5. The end of training is that of all rivals (fit.py).
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from methods.fit import Rival, fit
from methods.latent import principal
from methods.problem import Answer, Method, Problem, codes_of, smallest
from narrows.data import thinned
from narrows.model.vae import VAE, GatedVAE

CODES = 16_384
LAYERS = (2, 4, 8)
"""What is searched."""


class IRMAE(Rival):
    """An autoencoder with linear layers between encoder and decoder."""

    def __init__(self, model: GatedVAE, problem: Problem, count: int) -> None:
        super().__init__(model)
        self.error = problem.error
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            self.layers = nn.Sequential(*(nn.Linear(model.n, model.n, bias=False) for _ in range(count)))

    def others(self) -> Iterable[nn.Parameter]:
        """Return the weights of the linear layers."""
        return self.layers.parameters()

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the mean error."""
        return self.errors(x, generator).mean()

    def errors(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the error of each example."""
        return self.error(x, self.model.decode(self.layers(self.model.encode(x).mean)))

    @torch.no_grad()
    def mix(self) -> Tensor:
        """Return the matrix that all layers together are, (n, n)."""
        return self.layers(torch.eye(self.model.n)).T


def trained(problem: Problem, count: int, limit: int) -> tuple[VAE, int]:
    """Return an IRMAE with this many layers, cut to the size that the bound needs, and its batches."""
    rival = IRMAE(problem.model(problem.n), problem, count)
    batches = fit(rival, problem, limit)
    mix = rival.mix()
    codes = codes_of(rival.model, problem, thinned(problem.plan.splits.train, CODES)) @ mix.T.double()
    k = smallest(problem.n, lambda k: problem.is_enough(principal(rival.model, codes, mix, k)))
    return principal(rival.model, codes, mix, k), batches


def run(problem: Problem, setting: str) -> Answer:
    """Train with one number of layers, or with several and take the best answer."""
    if setting != "search":
        return Answer(*trained(problem, int(setting), problem.limit), setting)
    spent, found = 0, list[tuple[bool, float, int, VAE]]()
    for count in LAYERS:
        if spent < problem.limit:
            model, batches = trained(problem, count, problem.limit - spent)
            spent += batches
            misses = not problem.is_enough(model)
            found.append((misses, problem.expected(model) if misses else model.n, count, model))
    _, _, chosen, best = min(found, key=lambda one: one[:3])
    return Answer(best, spent, f"search: {chosen}")


METHOD = Method(run, setting=lambda name: "8" if name == "mnist" else "4", knob="number of linear layers, or `search`")
