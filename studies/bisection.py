"""The sweep that narrows replaces: bisection over n with plain VAEs, MNIST, tau = 10.

python studies/bisection.py FOLDER [NETWORK]      NETWORK: conv (default), mlp or resnet

Each plain VAE is trained in the usual way: Adam at 1e-3, batches of 64, and the error weighted as in the fast recipe
while its lambda is held. The validation error is measured every 250 batches, and training stops when it is within tau.
A VAE that is not there after BUDGET batches has failed. A failure costs the whole budget; with a smaller budget, sizes
that need long would fail, and the answer would be larger.
"""

import sys

import torch
from common import Row, Table, read_mnist

from narrows._util.allocator import keep_memory
from narrows.constraint import SteeredBound
from narrows.data import Batches, Data, split
from narrows.objective import gated_kl, kl_elements, squared_error
from narrows.training.validation import per_input
from networks import make_model

TAU, BUDGET, EVERY = 10.0, 20_000, 250


def plain(kind: str, n: int, data: Data) -> Row:
    """Train a plain VAE with n dimensions until its validation error is within tau or the budget is used up."""
    torch.manual_seed(0)
    splits = split(data)
    model, bound = make_model(kind, n, data), SteeredBound(TAU)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3, fused=True)
    batches, best = Batches(splits.train, 64, 0), float("inf")
    for step in range(1, BUDGET + 1):
        x = data.examples.batch(batches.next())
        posterior = model.encode(x)
        z = posterior.draw(torch.randn_like(posterior.mean))
        kl = gated_kl(kl_elements(*posterior), torch.ones_like(z)).mean()
        loss = bound(squared_error(x, model.decode(z))).loss + kl
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % EVERY == 0:
            best = min(best, per_input(model, data.examples, splits.validation)[0].mean())
            if best <= TAU:
                break
    return {"within": best <= TAU, "best": f"{best:.4g}", "batches": step}


def main() -> None:
    """Bisect between 1 and 32 dimensions, and add up the batches."""
    keep_memory()
    torch.set_num_threads(1)
    data = read_mnist(sys.argv[1:])
    kind = sys.argv[2] if len(sys.argv) > 2 else "conv"
    table = Table("bisection")
    low, high, tried = 0, 32, []  # low fails, high is enough
    while high - low > 1:
        n = (low + high) // 2
        row = table.run(lambda n=n: plain(kind, n, data), network=kind, n=n)  # type: ignore[misc]
        tried.append(row)
        low, high = (low, n) if row["within"] == "True" else (n, high)
    print(f"{kind}: {high} dimensions are enough, by bisection over 1 to 32")
    print(f"batches in all: {sum(int(row['batches']) for row in tried):,}")


if __name__ == "__main__":
    main()
