"""How long a step takes, and what the gates cost: batches of 64, interleaved, best of several rounds.

    python benchmarks/step.py

"fresh" gates are at their start (pi = 0.95), "settled" ones far from one half (pi = 0.999 or 0.001), where nearly no
example needs the second decoder pass; before the first hit all gates are open and a step is a plain VAE's.
"""

import time

import torch

from narrows.algorithm import Narrowing, draw_noise, make_optimiser
from narrows.allocator import keep_memory
from narrows.constraint import Geco
from narrows.model import gated_vae
from narrows.networks import NetworkConfig

BATCH, N, ROUNDS, STEPS = 64, 10, 7, 10
LOGITS = {"before the first hit": None, "settled gates": 1.0, "fresh gates": 0.42}


class Subject:
    """One model in one state of its gates, stepped again and again from the same gates."""

    def __init__(self, shape: tuple[int, ...], logit: float | None) -> None:
        torch.manual_seed(0)
        model = gated_vae(NetworkConfig("conv", shape, N))
        self.narrowing = Narrowing(model, Geco(20.0))
        self.optimiser = make_optimiser(self.narrowing)
        self.generator = torch.Generator().manual_seed(0)
        self.x = torch.rand(BATCH, *shape).contiguous(memory_format=torch.channels_last)
        self.logit = logit
        self.best = float("inf")

    def measure(self) -> float:
        """Time some steps; return seconds a step."""
        gates = self.narrowing.model.gates
        start = time.perf_counter()
        for _ in range(STEPS):
            with torch.no_grad():
                self.narrowing.hit.fill_(self.logit is not None)
                gates.logits.fill_(0.42 if self.logit is None else self.logit)
                if self.logit == 1.0:
                    gates.logits[N // 2 :] = -self.logit
            loss, _ = self.narrowing(self.x, draw_noise(BATCH, N, self.generator))
            loss.backward()
            self.optimiser.step()
            self.optimiser.zero_grad()
            self.narrowing.constraint.project()
        seconds = (time.perf_counter() - start) / STEPS
        self.best = min(self.best, seconds)
        return seconds


def main() -> None:
    """Measure every shape and state, and print the medians of their ratios."""
    keep_memory()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, batch {BATCH}")
    for shape in ((1, 64, 64), (3, 64, 64), (1, 28, 28)):
        subjects = {name: Subject(shape, logit) for name, logit in LOGITS.items()}
        ratios: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(ROUNDS):
            times = {name: subject.measure() for name, subject in subjects.items()}
            for name, seconds in times.items():
                ratios[name].append(seconds / times["before the first hit"])
        for name, subject in subjects.items():
            ordered = sorted(ratios[name])
            print(
                f"{'x'.join(map(str, shape)):9} {name:21} best {1000 * subject.best:6.1f} ms, "
                f"ratio {ordered[ROUNDS // 2]:.2f} ({ordered[0]:.2f} to {ordered[-1]:.2f})"
            )


if __name__ == "__main__":
    main()
