"""Our own reimplementation of the SCVI model in plain PyTorch, at its defaults, for comparisons.

It is not scvi-tools, which depends on lightning, a package that this project does not use. What is here follows the
published description (Lopez et al., 2018) and the documented defaults: 10 latent dimensions, one hidden layer of 128 on
each side with BatchNorm and ReLU, dropout of 0.1 in the encoder, the zero-inflated negative binomial with one
dispersion per gene, observed library sizes, batches of 128, Adam with a rate of 0.001, and a weight of the KL that
grows from 0 to 1 over 400 epochs, which are all epochs for 20,000 cells.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows.data.sparse import SparseRows

BATCH, RATE, WARM_UP = 128, 1e-3, 400


def _layer(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    norm = nn.BatchNorm1d(outputs, momentum=0.01, eps=0.001)
    return nn.Sequential(nn.Linear(inputs, outputs), norm, nn.ReLU(), nn.Dropout(dropout))


class PlainSCVI(nn.Module):
    """The model: cells (batch, genes) of counts."""

    def __init__(self, genes: int, latent: int = 10, hidden: int = 128) -> None:
        super().__init__()
        self.encoder, self.mean = _layer(genes, hidden, 0.1), nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder, self.scale = _layer(latent, hidden, 0.0), nn.Linear(hidden, genes)
        self.zeros = nn.Linear(hidden, genes)
        self.log_r = nn.Parameter(torch.randn(genes))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the posterior, (batch, latent) each."""
        hidden = self.encoder(torch.log1p(x))
        return self.mean(hidden), self.log_variance(hidden).exp() + 1e-4

    def rates(self, z: Tensor) -> Tensor:
        """Return the proportions that z is decoded to, (batch, genes)."""
        return self.scale(self.decoder(z)).softmax(1)

    def loss(self, x: Tensor, weight: float) -> Tensor:
        """Return the negative evidence lower bound with the KL times `weight`, averaged over the batch."""
        mean, variance = self.encode(x)
        hidden = self.decoder(mean + variance.sqrt() * torch.randn_like(mean))
        rate = x.sum(1, keepdim=True) * self.scale(hidden).softmax(1)
        kl = 0.5 * (mean.square() + variance - 1 - variance.log()).sum(1)
        return weight * kl.mean() - self._log_likelihood(x, rate, self.zeros(hidden)) / len(x)

    def _log_likelihood(self, x: Tensor, rate: Tensor, logit: Tensor) -> Tensor:
        """Return the sum over the batch; what only counts above 0 need is computed for those alone."""
        r, eps = self.log_r.exp(), 1e-8
        log_r, log_sum = (r + eps).log(), (r + rate + eps).log()
        of_zero = r * (log_r - log_sum)
        at_zero = F.softplus(of_zero - logit) - F.softplus(-logit)
        row, gene = torch.nonzero(x, as_tuple=True)
        count, one = x[row, gene], r[gene]
        counted = torch.lgamma(count + one) - torch.lgamma(one) - torch.lgamma(count + 1) + of_zero[row, gene]
        counted = counted + count * ((rate[row, gene] + eps).log() - log_sum[row, gene])
        kept = counted - logit[row, gene] - F.softplus(-logit[row, gene])
        return at_zero.sum() - at_zero[row, gene].sum() + kept.sum()


def train_scvi(rows: SparseRows, epochs: int, seed: int) -> PlainSCVI:
    """Train on all rows and return the model in evaluation mode."""
    torch.manual_seed(seed)
    model = PlainSCVI(rows.shape[1])
    optimiser = torch.optim.Adam(model.parameters(), RATE, eps=0.01, weight_decay=1e-6)
    for epoch in range(epochs):
        order = torch.randperm(len(rows)).numpy()
        for start in range(0, len(rows) - BATCH + 1, BATCH):
            loss = model.loss(torch.from_numpy(rows[order[start : start + BATCH]]), min(1.0, epoch / WARM_UP))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model.eval()
