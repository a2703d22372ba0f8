"""8. The loop: batches, metrics, looks at the validation split, checkpoints, and the end.

`Trainer` holds all state of a run. It is deterministic given its settings and data, and `state_dict` is everything
it depends on, so that training through a checkpoint equals training in one go, bit for bit.
"""

import contextlib
import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list

from narrows.algorithm import Noise, make_optimiser
from narrows.data import Batches, Data, split
from narrows.errors import NarrowsError
from narrows.model import VAE
from narrows.objective import ERRORS
from narrows.runs import MetricRow, Result, RunFolder
from narrows.training.checkpoint import save_checkpoint, write_state
from narrows.training.config import TrainConfig, to_dict
from narrows.training.display import Display
from narrows.training.evaluate import describe_dimensions, evaluate
from narrows.training.keeping import Keeper, Kept
from narrows.training.recipes import FastRecipe, make_recipe
from narrows.training.saving import describe, save_kept, versions
from narrows.training.setup import Build, column_scaling, fingerprint, make_accelerator, make_model, moments, resolve
from narrows.training.signals import Interrupted, StopRequest
from narrows.training.tracking import Trackers, check_trackers
from narrows.training.units import in_own_units

MAY_CHANGE = ("data", "steps", "patience", "device", "threads", "track", "log_every", "eval_every", "checkpoint_every")
"""Settings that a run may be resumed with other values of; moved data are found out by their fingerprint."""
TEST_NOISE = 2
"""Seed of the posterior samples on the test split."""


class Trainer:
    """One run: made from settings and data, it touches no file before `start_in` or `continue_in`."""

    def __init__(self, config: TrainConfig, data: Data, display: Display, build: Build | None = None) -> None:
        config = config.checked()
        self.tracked = check_trackers(config.track)
        self.trackers = Trackers([], Path(), {}, 0)
        self.display = display
        self.splits = split(data, config.split_seed)
        self.batches = Batches(self.splits.train, config.batch, config.seed)
        data, self.units = in_own_units(data, self.splits.train, column_scaling(config, data))
        self.data = data
        measured = moments(data.examples, self.splits.train)
        self.variance = measured.variance if config.error == "squared" else None
        self.config = resolve(config, data, measured)
        self.tau = math.inf if self.config.tau is None else self.config.tau
        self.accelerator = make_accelerator(self.config)

        model = make_model(self.config, data, measured, build).to(self.accelerator.device)
        self.recipe = make_recipe(self.config, model, data, self.splits, self._own)
        self.narrowing = self.recipe.narrowing.to(self.accelerator.device)
        self.model, self.constraint = self.narrowing.model, self.narrowing.constraint
        self.optimiser = make_optimiser(self.narrowing, self.config.learning_rate)
        self.wrapped, self.prepared = self.accelerator.prepare(self.narrowing, self.optimiser)
        self.noise = torch.Generator(self.accelerator.device).manual_seed(self.config.seed)

        self.folder = RunFolder("runs")
        self.keep_settled = False
        self.fingerprint = fingerprint(data)
        self.step = self.saved_step = 0
        self.seconds = 0.0
        self.totals = torch.zeros(5, device=self.accelerator.device)
        """Sums since the last row of metrics: error, hits, kl, loss, and the number of batches."""
        self.keeper = Keeper(data.examples, self.splits.validation, self.tau, ERRORS[self.config.error])

    def start_in(self, folder: RunFolder, prepared: bool = False) -> Result:
        """Make the folder, with a checkpoint of batch 0 so that it can be resumed from any moment on, and train."""
        self.folder = folder
        if self.accelerator.is_main_process:
            folder.create(prepared)
        with self._session() as stop:
            if self.accelerator.is_main_process:
                folder.write_config(to_dict(self.config))
                self._checkpoint()
            return self._run(stop)

    def continue_in(self, folder: RunFolder, state: dict[str, Any]) -> Result:
        """Become the run that `state` was and go on with it."""
        self.folder = folder
        self.load_state_dict(state)
        with self._session() as stop:
            if self.accelerator.is_main_process:
                folder.truncate_rows(self.step, self.config.log_every)
                folder.result.unlink(missing_ok=True)  # the answer so far no longer holds
                folder.write_config(to_dict(self.config))
            return self._run(stop)

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Begin with another run's weights, gates and stream of batches, where that run had found its size."""
        model = {name: tensor for name, tensor in state["narrowing"].items() if name.startswith("model.")}
        self.narrowing.load_state_dict(model, strict=False)
        assert isinstance(self.recipe, FastRecipe), "only that recipe knows when a size is found"
        self.recipe.go_on_from(state["recipe"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.noise.set_state(state["noise"])
        self.batches.load_state_dict(state["batches"])

    @contextlib.contextmanager
    def _session(self) -> Iterator[StopRequest]:
        """Hold the folder, take signals as requests, and say how to go on after a second Ctrl-C or a full disk."""
        lock = self.folder.lock() if self.accelerator.is_main_process else contextlib.nullcontext()
        try:
            with StopRequest() as stop, lock:
                yield stop
        except KeyboardInterrupt:
            raise Interrupted(self.saved_step, self.folder.path, signal.SIGINT) from None
        except OSError as error:
            raise NarrowsError(
                f"cannot write into {self.folder.path}: {error.strerror}; what was saved is safe: make room there, "
                f"then go on with `narrows resume {self.folder.path}`"
            ) from error

    def _run(self, stop: StopRequest) -> Result:
        """Train to the last batch and certify the model; or stop at a signal, with a checkpoint."""
        main = self.accelerator.is_main_process
        self.display.folder = self.folder
        self.display.begin(self.config, self._header(), self.step)
        if main:
            self.trackers = Trackers(self.tracked, self.folder.path, to_dict(self.config), self.step)
        started = time.perf_counter() - self.seconds
        try:
            while not self._ended():
                self.train_batch()
                self.seconds = time.perf_counter() - started
                if self._due(self.config.log_every):
                    self._log()
                stopping = self._agree(stop)
                if main and (self._due(self.config.checkpoint_every) or stopping):
                    self._checkpoint()
                if stopping and not self._ended():
                    raise Interrupted(self.step, self.folder.path, stopping)
            return self._finish()
        finally:
            self.display.end()
            self.trackers.close()

    def train_batch(self) -> None:
        """One step of Algorithm 1 on the next batch, and its update."""
        index = self.batches.next()
        noise = self.recipe.noise(len(index), self.noise)
        x = self.data.examples.batch(self._own(index)).to(self.accelerator.device)
        shared = self.config.gate_noise == "batch"
        noise = Noise(self._own(noise.eps), noise.u if shared else self._own(noise.u))
        loss, record = self.wrapped(x, noise)
        self.accelerator.backward(loss)
        self.prepared.step()
        self.prepared.zero_grad()
        self.totals += torch.stack([*record, torch.ones_like(record.loss)])
        self.step += 1
        decision = self.recipe.after_step(self.step, self.optimiser, self._look, self._settled)
        if decision is not None and self.accelerator.is_main_process:
            self.folder.append_decision(decision)

    def _ended(self) -> bool:
        return self.recipe.done or (self.config.steps != "auto" and self.step >= self.config.steps)

    def state_dict(self) -> dict[str, Any]:
        """Return everything the run depends on."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "config": to_dict(self.config),
            "fingerprint": self.fingerprint,
            "narrowing": self.narrowing.state_dict(),
            "recipe": self.recipe.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "noise": self.noise.get_state(),
            "batches": self.batches.state_dict(),
            "totals": self.totals,
            "keeper": self.keeper.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the run that `state` was."""
        if state["fingerprint"] != self.fingerprint:
            raise NarrowsError(
                f"the data {self.config.data} are not those this run was started with; nothing was changed: "
                f"bring those back, or start a new run"
            )
        for name, value in to_dict(self.config).items():
            trained_with = state["config"].get(name, value)
            if name not in MAY_CHANGE and value != trained_with:
                raise NarrowsError(
                    f"{self.folder.config} says {name} = {value!r}, but this run was trained with {trained_with!r}; "
                    f"put that back, or start a new run"
                )
        self.narrowing.load_state_dict(state["narrowing"])
        self.recipe.load_state_dict(state["recipe"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.noise.set_state(state["noise"])
        self.batches.load_state_dict(state["batches"])
        self.totals.copy_(state["totals"])
        self.keeper.load_state_dict(state["keeper"])
        self.step = self.saved_step = state["step"]
        self.seconds = state["seconds"]

    def _header(self) -> list[str]:
        weights = sum(p.numel() for p in self.model.parameters())
        return describe(self.config, self.data, self.splits, self.units, weights, str(self.accelerator.device))

    def _own(self, rows: Any) -> Any:
        """Return this process's share of a batch; all draw the same batch and noise, so the sum is one process's."""
        if self.accelerator.num_processes == 1:
            return rows
        share = len(rows) // self.accelerator.num_processes
        return rows[share * self.accelerator.process_index :][:share]

    def _values(self) -> int:
        return int(np.prod(self.data.examples.shape))

    def _checkpoint(self) -> None:
        if not all(torch.isfinite(p).all() for p in self.narrowing.parameters()):
            raise self._broke_down()
        save_checkpoint(self.folder.checkpoints, self.step, self.state_dict())
        self.saved_step = self.step

    def _broke_down(self) -> NarrowsError:
        return NarrowsError(
            f"training broke down: error, loss or weights are not finite numbers near batch {self.step}; start again "
            f"with a smaller --learning-rate than {self.config.learning_rate:g}"
        )

    def _due(self, every: int) -> bool:
        return self.step % every == 0

    def _agree(self, stop: StopRequest) -> int:
        """Return the signal that asked to stop, or 0; several processes agree at rows of metrics."""
        if self.accelerator.num_processes == 1:
            return stop.signal
        if not self._due(self.config.log_every):
            return 0
        signals = self.accelerator.gather(torch.tensor([stop.signal], device=self.accelerator.device))
        return int(signals.max())

    def _log(self) -> None:
        totals = self.accelerator.reduce(self.totals, "mean").cpu()
        self.totals = torch.zeros_like(self.totals)
        error, hits, kl, loss = (totals[:4] / totals[4]).tolist()
        if not all(map(math.isfinite, (error, kl, loss))):
            raise self._broke_down()
        probability = self.model.gates.probability().detach()
        row = MetricRow(
            step=self.step,
            error=error,
            gate_sum=probability.sum().item(),
            open=int((probability > 0.5).sum()),
            watched=self.recipe.watched(),
            multiplier=self.constraint.multiplier()[0].item(),
            hits=hits,
            kl=kl,
            loss=loss,
            seconds=self.seconds,
        )
        if self.accelerator.is_main_process:
            self.folder.append_row(row)
            costs = self.recipe.costs()
            if costs is not None:
                self.folder.append_costs(self.step, costs)
            self.display.row(row)
            self.trackers.log(row)

    def _settled(self) -> None:
        """Keep the state in which the size was found, before the last phase, if another run is to go on from it."""
        if self.keep_settled and self.accelerator.is_main_process:
            write_state(self.folder.settled, self.state_dict())

    def _look(self) -> None:
        if self.accelerator.is_main_process:
            self._validate()

    def _validate(self, at_end: bool = False) -> Kept:
        """Look at the validation split; save the model if it is the best so far."""
        final = at_end and self.recipe.looks_at_end
        seen = self.keeper.look(self.recipe.model, self.step, regular=not at_end, final=final)
        if not math.isfinite(seen.validation.error):
            raise self._broke_down()
        if seen is self.keeper.best():
            self._save(seen.narrowed(self.model), seen, met=True)
            self.display.kept(self.step, len(seen.kept), seen.validation)
        return seen

    def _save(self, model: VAE, kept: Kept, met: bool) -> None:
        save_kept(self.folder.model, model, kept, met, self.config, self.data, self.fingerprint, self.units)

    def _finish(self) -> Result:
        """Take a last look, save everything, certify on the first process, and let all have the answer."""
        main = self.accelerator.is_main_process
        if main:
            if self.recipe.looks_at_end or not self._due(self.config.eval_every):
                self._validate(at_end=True)
            self._checkpoint()
        if not self._due(self.config.log_every):
            self._log()  # after the checkpoint: a row of the run's end, which going on drops again
        answers = [self._certify() if main else None]
        (result,) = broadcast_object_list(answers) if self.accelerator.num_processes > 1 else answers
        assert result is not None
        return result

    def _certify(self) -> Result:
        """Measure the kept model, or the last one if none met tau, on the test split, not looked at before."""
        met = self.keeper.best() is not None
        chosen = self.keeper.best() or self._validate(at_end=True)
        model = chosen.narrowed(self.model)
        error = ERRORS[self.config.error]
        measured = describe_dimensions(model, self.data.examples, self.splits.test, TEST_NOISE, error)
        order = sorted(range(model.n), key=lambda j: -measured[j].cost)  # the first says most, as with PCA
        model = model.reordered(order)
        heldout = evaluate(model, self.data.examples, self.splits.test, TEST_NOISE, error)
        result = Result(
            n=self.model.n,
            dims=model.n,
            kept=model.kept,
            tau=self.config.tau,
            values=self._values(),
            variance=self.variance,
            heldout=heldout,
            validation=chosen.validation,
            best_error=self.keeper.best_error,
            best_dims=self.keeper.best_dims,
            met=met and heldout.meets(self.tau),
            model="smallest that met tau" if met else "last",
            model_step=chosen.step,
            steps=self.step,
            seconds=round(self.seconds, 3),
            seed=self.config.seed,
            versions=versions(),
            dimensions=[measured[j] for j in order],
        )
        self._save(model, chosen, met)
        self.folder.write_result(result)
        return result
