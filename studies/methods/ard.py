"""ARD-VAE: Saha, Joshi and Whitaker, "ARD-VAE: A statistical formulation to find the relevant latent dimensions of
variational autoencoders" (WACV 2025). Written from the paper; the authors' code has no licence, and none of it is here.

The prior's variance is learned for each dimension. Its precision has a Gamma prior with a = b = 0, which is conjugate:
after N codes z of training examples, a = N / 2 and b = sum(z^2) / 2, and the prior of a code is a Student's t that is
nearly N(0, b / a), in which the KL has a closed form:

    loss = E + beta KL(q(z|x), N(0, b / a))

A dimension that decodes to nothing keeps some variance. So its relevance is its variance b / a times the mean of the
decoder's squared derivative by it, |dx/dz_j|^2, and the relevant dimensions are the fewest with 99% of all relevance.

Choices of ours
1. beta is 0.5 for MNIST and 0.05 for CIFAR-10, as in the settings that the authors publish; their images of CIFAR-10
   are all of it, ours a sample. For other sets we found none: beta is then 2 tau / D for D values per input, for which
   E / beta is the likelihood of noise whose size is tau. The authors tune beta until the error is as wanted, so
   `--setting search` is their way to meet a bound: the largest of the betas (that above) x 4^-4 ... 4^3 whose relevant
   dimensions alone are within the target, by bisection; all trainings are counted.
2. N is 10,000, or all training examples where there are fewer, drawn anew at each update. There is an update once per
   pass over the training data, at least 50 and at most 500 batches apart, since passes over our sets differ so much in
   length. The authors keep these examples out of training for that pass; here they are not.
3. Derivatives are differences between decodings a tenth of a standard deviation up and down, on 256 training examples.
4. Dimensions that are not relevant are cut: they decode as at 0, their prior's mean. Nothing is trained afterwards.
5. Optimiser, rate and the end of training are those of all rivals (fit.py).
"""

import math

import torch
from torch import Tensor

from methods.fit import Rival, fit
from methods.problem import Answer, Method, Problem, smallest
from narrows.model.vae import VAE, GatedVAE

CODES = 10_000
SHARE = 0.99
"""Share of all relevance that the relevant dimensions have."""
RARELY, OFTEN = 500, 50
STEP = 0.1
"""Of the differences, in standard deviations of a code."""
SHOWN = 256
BETAS = {"mnist": 0.5, "cifar10": 0.05}
FACTORS = tuple(4.0**power for power in range(3, -5, -1))


class ARD(Rival):
    """A VAE whose prior has a variance of its own for each dimension."""

    def __init__(self, model: GatedVAE, problem: Problem, beta: float) -> None:
        super().__init__(model)
        self.beta, self.error = beta, problem.error
        self.train_examples = problem.draw("train")
        self.codes = min(CODES, len(problem.plan.splits.train))
        self.every = min(RARELY, max(OFTEN, len(problem.plan.splits.train) // problem.config.batch))
        self.generator = torch.Generator().manual_seed(problem.seed)
        self.variance: Tensor
        self.register_buffer("variance", torch.ones(model.n))

    def before(self, step: int) -> None:
        """Estimate the prior's variances anew."""
        if step % self.every == 0:
            self.update()

    @torch.no_grad()
    def update(self) -> None:
        """Set each variance to b / a, of codes of training examples."""
        self.eval()
        b, a = torch.zeros_like(self.variance), self.codes / 2
        for start in range(0, self.codes, 500):
            x = self.train_examples(min(500, self.codes - start), self.generator)
            b += 0.5 * self._draw(x, self.generator)[2].square().sum(0)
        self.variance.copy_((b / a).clamp(min=1e-12))
        self.train()

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return E / beta + KL, whose minimum is that of E + beta KL."""
        mean, log_std, z = self._draw(x, generator)
        ratio = (mean.square() + torch.exp(2 * log_std)) / self.variance
        kl = 0.5 * (ratio - 1 + self.variance.log()).sum(1) - log_std.sum(1)
        return (self.error(x, self.model.decode(z)) / self.beta + kl).mean()

    def errors(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the error with a sampled z."""
        return self.error(x, self.model.decode(self._draw(x, generator)[2]))

    def _draw(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        posterior = self.model.encode(x)
        noise = torch.randn(posterior.mean.shape, generator=generator)
        return posterior.mean, posterior.log_std, posterior.draw(noise)

    @torch.no_grad()
    def relevance(self, x: Tensor) -> Tensor:
        """Return the relevance of each dimension, (n,), measured on examples `(batch, *shape)`."""
        z, spread = self.model.encode(x).mean, self.variance.sqrt()
        found = torch.empty(self.model.n)
        for j in range(self.model.n):
            step = torch.zeros(self.model.n)
            step[j] = STEP * spread[j]
            change = (self.model.decode(z + step) - self.model.decode(z - step)).flatten(1)
            found[j] = (change / (2 * STEP)).square().sum(1).mean()  # the variance is in the step
        return found


def relevant(relevance: Tensor, share: float = SHARE) -> list[int]:
    """Return the fewest dimensions with this share of all relevance, the most relevant first."""
    order = relevance.argsort(descending=True)
    reached = relevance[order].cumsum(0) / relevance.sum().clamp(min=1e-30)
    count = int((reached < share).sum()) + 1
    return order[: min(count, len(order))].tolist()


def trained(problem: Problem, beta: float, limit: int) -> tuple[VAE, int]:
    """Return the relevant part of an ARD-VAE trained with this beta, and its batches."""
    rival = ARD(problem.model(problem.n), problem, beta)
    batches = fit(rival, problem, limit)
    rival.update()
    rival.eval()
    x = rival.train_examples(SHOWN, torch.Generator().manual_seed(problem.seed))
    return rival.model.narrow(relevant(rival.relevance(x))), batches


def default(problem: Problem) -> float:
    """Return the authors' beta, or one that makes sense in the unit of the data."""
    return BETAS.get(problem.name, 2 * problem.tau / math.prod(problem.examples.shape))


def run(problem: Problem, setting: str) -> Answer:
    """Train with one beta, or search for the largest that keeps the bound."""
    if setting != "search":
        beta = default(problem) if setting == "authors" else float(setting)
        return Answer(*trained(problem, beta, problem.limit), f"{beta:.4g}")
    spent, found = 0, dict[int, VAE]()

    def is_enough(place: int) -> bool:
        nonlocal spent
        if spent >= problem.limit:
            return False
        found[place], batches = trained(problem, FACTORS[place - 1] * default(problem), problem.limit - spent)
        spent += batches
        return problem.is_enough(found[place])

    place = smallest(len(FACTORS), is_enough)
    if place not in found:
        found[place], batches = trained(problem, FACTORS[place - 1] * default(problem), max(1, problem.limit - spent))
        spent += batches
    return Answer(found[place], spent, f"search: {FACTORS[place - 1] * default(problem):.4g}")


METHOD = Method(run, setting=lambda name: "authors", knob="beta, `authors` or `search`")
