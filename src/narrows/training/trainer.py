"""The trainer: batches, metrics, validation, checkpoints, and the end of a run.

`Trainer` holds all state of a run. It is deterministic given its plan, and `state_dict` is everything it depends on, so
training through a checkpoint equals training in one go, bit for bit.
"""

import copy
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows._util.devices import to_device
from narrows._util.errors import NarrowsError, setting
from narrows._util.processes import Vote, on_first_process, own_share
from narrows.data import Batches
from narrows.data.mixed import by_column
from narrows.model.vae import VAE
from narrows.networks import NetworkConfig
from narrows.recipes.base import RecipeInputs, build_recipe
from narrows.recipes.controller import Decision
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.registry import RECIPES
from narrows.runs.records import DecisionRow, MetricRow, Result
from narrows.training.build import Build, compile_networks, make_accelerator, make_model
from narrows.training.certify import certify
from narrows.training.config import seconds_of, to_dict
from narrows.training.listeners import Listener, RunStart
from narrows.training.model_file import description, in_users_units, versions
from narrows.training.selection import Candidate, Selection
from narrows.training.setup import FEW_ROWS, Plan, value_errors
from narrows.training.signals import Interrupted, StopRequest
from narrows.training.sinks import Sink
from narrows.training.trackers import Trackers
from narrows.training.validation import costs_by_value, describe_dimensions, errors_of_first, per_input

PARTS = ("objective", "optimiser", "batches", "selection")
"""The trainer's parts whose state is in their `state_dict`."""
TEST_SEED = 2
"""Seed of the posterior samples on the test split."""
MOST_FEATURE_COSTS = 65_536
"""Numbers that a result holds about columns and dimensions, at most."""
LONGEST = 600.0
"""Seconds between two checkpoints, at most, where a number of batches is given."""
AFFORDABLE = 16
"""Full validation passes are at least `len(validation) / AFFORDABLE` batches apart."""


def example_weights(plan: Plan) -> Tensor | None:
    """Return the weight of every example, with mean 1 over the training split; None where all count the same."""
    weights = plan.data.counting.weights
    if weights is None:
        return None
    return torch.from_numpy(weights / weights[plan.splits.train].mean()).float()


class Trainer:
    """One run. Creating it builds the model and touches no file; `start` or `resume` trains, once.

    Arguments:
        plan: The checked settings and data.
        listener: Hears how training goes.
        build: A user's own networks, or a description of built-in ones to use instead of the plan's.
    """

    def __init__(self, plan: Plan, listener: Listener, build: Build | NetworkConfig | None = None) -> None:
        self.plan, self.listener, self.config = plan, listener, plan.config
        self.accelerator = make_accelerator(self.config)
        self.sink = Sink()
        self.weights = example_weights(plan)
        self.batches = Batches(plan.splits.training, self.config.batch, self.config.seed)
        self.traits = RECIPES[self.config.recipe]
        model = make_model(self.config, plan.data, plan.moments, build).to(self.accelerator.device)
        self.recipe = build_recipe(self.config.recipe, self._recipe_inputs(model))
        objective: Any = self.recipe.objective.to(self.accelerator.device)
        self.objective = objective
        self.model, self.constraint = objective.model, objective.constraint
        assert self.config.learning_rate != "auto"
        self.optimiser = make_optimiser(objective, self.config.learning_rate)
        if self.config.compile:
            compile_networks(self.model)
        self.wrapped = self.accelerator.prepare(self.objective)
        self.noise = torch.Generator(self.accelerator.device).manual_seed(self.config.seed)
        self.trackers = Trackers()
        self.step = self.validated = 0
        self.seconds = self.saved = 0.0
        """Seconds trained, and the clock when a checkpoint was written last."""
        self.totals = torch.zeros(5, device=self.accelerator.device)
        """Sums since the last row of metrics: error, hits, kl, loss, and the number of batches."""
        test = plan.data.counting.at(plan.splits.test).units(len(plan.splits.test))
        terms = plan.terms.at_look(1, more=not self.traits.ends_by_itself)
        counting = plan.data.counting.at(plan.splits.validation)
        self.selection = Selection(
            plan.data.examples, plan.splits.validation, plan.tau, terms, test, plan.error, counting
        )
        self.looks: list[int] = []
        """The batches after which the test split was looked at."""

    def start(self, sink: Sink) -> Result:
        """Train from the first batch and return the answer."""
        self._attach(sink)
        with self.sink.session() as stop:
            self.sink.start(to_dict(self.config), self.state_dict)
            return self._run(stop)

    def resume(self, sink: Sink, state: dict[str, Any]) -> Result:
        """Continue the run that `state` was taken from, and return the answer."""
        self._attach(sink)
        self.load_state_dict(state)
        with self.sink.session() as stop:
            self.sink.restart(to_dict(self.config), self.step, state["records"])
            return self._run(stop)

    def continue_from(self, state: dict[str, Any]) -> None:
        """Begin with the weights, gates and stream of batches of another run that had found its size."""
        model = {name: tensor for name, tensor in state["objective"].items() if name.startswith("model.")}
        self.objective.load_state_dict(model, strict=False)
        self.recipe.continue_from(state["recipe"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.noise.set_state(state["noise"])
        self.batches.load_state_dict(state["batches"])

    def load_weights(self, model: VAE) -> None:
        """Begin with what another model has learned, networks and offsets of batches, but with these data's scaling."""
        try:
            for part in ("encoder", "decoder"):
                getattr(self.model, part).load_state_dict(getattr(model, part).state_dict())
        except RuntimeError:
            raise NarrowsError(
                f"{setting('warm_start')}: the present model has other networks; pass the same ones"
            ) from None
        self.model.scaling.continue_from(model.scaling)
        self.recipe.restart()

    def _attach(self, sink: Sink) -> None:
        self.sink = sink if self.accelerator.is_main_process else Sink(sink.folder, sink.answers_when_stopped)

    def _run(self, stop: StopRequest) -> Result:
        """Train to the last batch, or to a signal if the sink wants an answer then, and certify the model.

        Elsewhere a signal raises `Interrupted` as soon as a checkpoint is written.
        """
        weights = sum(p.numel() for p in self.model.parameters())
        header = self.plan.header(weights, str(self.accelerator.device))
        if self.traits.measures_heldout and self.traits.closes_gates and not self.model.mixable:
            header.append("latent space: these networks cannot take other coordinates, so single dimensions close")
        self.listener.begin(RunStart(self.config, self.sink.folder, header, self.step))
        if self.accelerator.is_main_process and self.plan.trackers and self.sink.folder:
            self.trackers.start(self.plan.trackers, self.sink.folder.path, to_dict(self.config), self.step)
        self.saved = time.perf_counter()
        started, vote = self.saved - self.seconds, Vote()
        try:
            while not self._ended():
                self.train_batch()
                self.seconds = time.perf_counter() - started
                if self._due(self.config.log_every):
                    self._log()
                stopping = vote.result(stop.signal)
                if stopping and self.sink.answers_when_stopped:
                    break
                if stopping or self._checkpoint_due():
                    self._checkpoint()
                if stopping and not self._ended():
                    raise Interrupted(self.step, self.sink.folder.path if self.sink.folder else Path(), stopping)
            return self._finish()
        finally:
            vote.close()
            self.listener.end()
            self.trackers.close()

    def train_batch(self) -> None:
        """Train one batch, let the recipe decide, validate where it is due, and carry the decision out."""
        index = self.batches.next()
        noise = self.recipe.noise(len(index), self.noise)
        own = own_share(index)
        x = to_device(self.plan.data.examples.batch(own), self.accelerator.device)
        if self.weights is None:
            loss, record = self.wrapped(x, noise)
        else:
            loss, record = self.wrapped(x, noise, to_device(self.weights[own], self.accelerator.device))
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.totals += torch.stack([*record, torch.ones_like(record.loss)])
        self.step += 1
        self.recipe.update(self.optimiser)
        decision = self.recipe.decide()
        if self._validation_due(decision):
            self.validated = self.step
            self._validate()
        elif decision is not None and decision.closes and self.accelerator.is_main_process:
            self.selection.remember(self.recipe.candidate, self.step)
        if decision is not None:
            self._carry_out(decision)

    def _validation_due(self, decision: Decision | None) -> bool:
        """Return whether to validate now: regularly, or where a recipe decides, before a size that holds is left."""
        if not self.traits.measures_heldout:
            return self._due(self.config.eval_every)
        if decision is None or not decision.closes:
            return decision is not None and decision.settles
        return self.step - self.validated >= min(self.config.eval_every, len(self.plan.splits.validation) // AFFORDABLE)

    def _carry_out(self, decision: Decision) -> None:
        gates = " ".join(map(str, decision.gates))
        count = len(self.recipe.candidate.gates.kept())
        row = DecisionRow(self.step, decision.action, count, self.recipe.decided_at(), gates)
        if decision.finds:
            self.sink.write_settled(self.state_dict)
        self.recipe.act(decision, self.optimiser)
        self.sink.write_decision(row)

    def _ended(self) -> bool:
        return self.recipe.done or (self.config.steps != "auto" and self.step >= self.config.steps)

    def state_dict(self) -> dict[str, Any]:
        """Return everything the run depends on."""
        return {
            "step": self.step,
            "validated": self.validated,
            "seconds": self.seconds,
            "looks": list(self.looks),
            "config": to_dict(self.config),
            "fingerprint": self.plan.fingerprint,
            "recipe": self.recipe.recipe_state(),
            "noise": self.noise.get_state(),
            "totals": self.totals,
            **{part: getattr(self, part).state_dict() for part in PARTS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the run that `state`, which `state.check_state` accepts, was taken from."""
        for part in PARTS:
            getattr(self, part).load_state_dict(state[part])
        self.recipe.load_recipe_state(state["recipe"])
        self.noise.set_state(state["noise"])
        self.totals.copy_(state["totals"])
        self.step, self.validated, self.seconds = state["step"], state["validated"], state["seconds"]
        self.looks = list(state["looks"])

    def _recipe_inputs(self, model: Any) -> RecipeInputs:
        config, splits = self.config, self.plan.splits
        return RecipeInputs(
            model=model,
            error=self.plan.error,
            tau=config.tau,
            aim=config.aim,
            steps=None if config.steps == "auto" else config.steps,
            seed=config.seed,
            effort=config.effort,
            relative=config.constraint == "relative",
            estimator=config.estimator,
            share_gates=config.gate_noise == "batch",
            held_out=partial(self._draw, splits.validation),
            split_sizes=self.plan.split_sizes,
            terms=self.plan.terms,
            share=own_share,
            few_rows=len(self.plan.data.examples) < FEW_ROWS,
            training_examples=partial(self._draw, splits.train),
        )

    def _draw(self, part: np.ndarray, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` examples of a split for all processes, in proportion to weights; return this one's."""
        if self.weights is None:
            drawn = torch.randint(len(part), (count,), generator=generator, device=generator.device)
        else:
            total = self.weights[part].double().cumsum(0)
            at = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64).cpu()
            drawn = torch.searchsorted(total, at * total[-1], right=True).clamp(max=len(part) - 1)
        index: np.ndarray = part[own_share(drawn.cpu().numpy())]
        return to_device(self.plan.data.examples.batch(index), self.accelerator.device)

    def _checkpoint(self) -> None:
        if not all(torch.isfinite(p).all() for p in self.objective.parameters()):
            raise self._diverged()
        self.sink.write_checkpoint(self.step, self.state_dict)
        self.saved = time.perf_counter()

    def _diverged(self) -> NarrowsError:
        return NarrowsError(
            f"training diverged: error, loss or weights are not finite near batch {self.step}; start again with a "
            f"{setting('learning_rate')} below {self.config.learning_rate}"
        )

    def _due(self, every: int) -> bool:
        return self.step % every == 0

    def _checkpoint_due(self) -> bool:
        """Return whether to write a checkpoint, by count or by time; the time matters to the process that writes."""
        every = self.config.checkpoint_every
        if isinstance(every, int) and self._due(every):
            return True
        return time.perf_counter() - self.saved >= (LONGEST if isinstance(every, int) else seconds_of(every))

    def _log(self) -> None:
        totals = self.accelerator.reduce(self.totals, "mean").cpu()
        self.totals = torch.zeros_like(self.totals)
        error, hits, kl, loss = (totals[:4] / totals[4]).tolist()
        if not all(map(math.isfinite, (error, kl, loss))):
            raise self._diverged()
        probability = self.model.gates.probability().detach()
        row = MetricRow(
            step=self.step,
            error=error,
            gate_sum=probability.sum().item(),
            open=int((probability > 0.5).sum()),
            watched=self.recipe.heldout_error(),
            multiplier=self.constraint.multiplier()[0].item(),
            hits=hits,
            kl=kl,
            loss=loss,
            seconds=self.seconds,
        )
        self.sink.write_row(row, self.recipe.costs())
        if self.accelerator.is_main_process:
            self.listener.row(row)
            self.trackers.log(row)

    def model_now(self) -> VAE:
        """Return a copy of the model as it would be saved now, without the dimensions that are closed."""
        candidate = copy.deepcopy(self.recipe.candidate)
        return in_users_units(self.plan, candidate.narrow(candidate.gates.kept()).eval())

    def _validate(self, at_end: bool = False) -> Candidate | None:
        """Validate the candidate on the first process, and save it if it is the best so far."""
        if not self.accelerator.is_main_process:
            return None
        final = at_end and self.traits.measures_heldout and self._ended()
        candidate = self.selection.consider(self.recipe.candidate, self.step, regular=not at_end, final=final)
        if not math.isfinite(candidate.validation.error):
            raise self._diverged()
        if candidate is self.selection.best():
            self._save(candidate.narrowed(self.model), candidate, met=True)
            self.listener.kept(self.step, len(candidate.kept), candidate.validation)
        return candidate

    def _save(self, model: VAE, candidate: Candidate, met: bool) -> None:
        self.sink.write_model(in_users_units(self.plan, model), description(self.plan, candidate, met))

    def _finish(self) -> Result:
        """Validate once more, save everything, and certify on the first process; return the answer on all of them."""
        last = None
        if self.traits.measures_heldout or not self._due(self.config.eval_every):
            last = self._validate(at_end=True)
        if self.step not in self.looks:
            self.looks.append(self.step)  # in the checkpoint: whoever continues from here has had this look
        self._checkpoint()
        if not self._due(self.config.log_every):
            self._log()  # after the checkpoint: a row that only the run's end writes, and continuing drops
        return on_first_process(lambda: self._certify(last))

    def _certify(self, last: Candidate | None) -> Result:
        """Save the smallest model that is certified on the test split, which nothing has used before.

        The last model is tested if none met tau on the validation split.
        """
        self.selection.complete(self.model)
        candidates = self.selection.candidates()
        found = bool(candidates)
        if not found:
            last = last or self._validate(at_end=True)
            assert last is not None
            candidates = [last]
        error, examples, test = self.plan.error, self.plan.data.examples, self.plan.splits.test
        counting = self.plan.data.counting.at(test)

        def errors(candidate: Candidate) -> tuple[np.ndarray, np.ndarray]:
            return per_input(candidate.narrowed(self.model), examples, test, TEST_SEED, error)

        more = not self.traits.ends_by_itself
        terms, look = self.plan.terms, len(self.looks)
        verdict = certify(candidates, errors, len(test), self.plan.tau, terms, look, more, counting)
        chosen = verdict.candidate
        model = chosen.narrowed(self.model)
        measured = describe_dimensions(model, examples, test, TEST_SEED, error, counting.weights)
        order = sorted(range(model.n), key=lambda j: -measured[j].cost)  # the first says most, as with PCA
        model = model.narrow(order)
        counts = self.plan.moments.counts
        result = Result(
            n=self.model.n,
            dims=model.n,
            kept=model.kept,
            tau=self.config.tau,
            values=self.plan.values,
            variance=self.plan.moments.variance if self.plan.named and self.config.error == "squared" else None,
            heldout=verdict.heldout,
            validation=chosen.validation,
            best_error=self.selection.best_error,
            best_dims=self.selection.best_dims,
            met=verdict.met,
            model="smallest that met tau" if found else "last",
            model_step=chosen.step,
            steps=self.step,
            seconds=round(self.seconds, 3),
            seed=self.config.seed,
            versions=versions(),
            dimensions=[measured[j] for j in order],
            errors_of_first=errors_of_first(model, examples, test, TEST_SEED, error, counting.weights),
            certificate=verdict.certificate,
            feature_costs=self._feature_costs(model),
            columns=[column.name for column in self.plan.data.table],
            stopped=not self._ended(),
            null_deviance=None if counts is None else counts.null,
            explainable=None if counts is None else counts.explainable,
        )
        self._save(model, chosen, met=found)
        self.sink.write_result(result)
        return result

    def _feature_costs(self, model: VAE) -> list[list[float]]:
        """Return what each dimension says about each column, or value of a vector; nothing for images and very wide
        vectors."""
        plan, test = self.plan, self.plan.splits.test
        if plan.data.is_image or not plan.named or plan.data.examples.shape[0] * model.n > MOST_FEATURE_COSTS:
            return []
        weights = plan.data.counting.at(test).weights
        of_values = value_errors(self.config, plan.data, plan.moments)
        costs = costs_by_value(model, plan.data.examples, test, TEST_SEED, of_values, weights)
        rows: list[list[float]] = by_column(costs, plan.data.table).tolist()
        return rows
