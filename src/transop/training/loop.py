"""The one mechanism by which every phase is checkpointed, resumed, interrupted and rolled back.

A phase iterates over a `Loop` and does one step per turn. Whatever must survive a power cut is
handed to the loop once: modules, optimisers, generators and a dictionary of plain values.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.optim import Optimizer

from transop.errors import SettingsError, UserError
from transop.pairs import PairSource
from transop.training.session import Session
from transop.training.steps import schedule_rate, steps_in

logger = logging.getLogger(__name__)

_MOST_HALVINGS = 3
_LOOK_AFTER = 0.1  # of the time or the steps that are left pass between two looks at the clock
_FEWEST_STEPS = 20  # however late it is
_WORTH_A_NEW_LENGTH = 0.05  # of the steps that are left


class TrainingFailure(UserError):
    """A run cannot go on; the message says why and which setting to change."""


class Loop:
    """The steps of a phase, from where an earlier run left off to the end.

    Resuming is bit-exact: a step's randomness comes from its number or from a generator held
    here, so a run killed anywhere and continued ends with the same bits.

    Attributes:
        step: the step at hand, counted from zero.
        share: the weight of this device's mean in that of the batch; 1 unless rows are left over.
        step_factor: 1, halved by each rollback; phases multiply learning rates with it.
        memory: plain values a phase wants to keep; part of every checkpoint.
    """

    def __init__(
        self,
        session: Session,
        phase: str,
        n_steps: int,
        *,
        modules: Mapping[str, nn.Module],
        optimisers: Mapping[str, Optimizer],
        generators: Mapping[str, torch.Generator] | None = None,
        steps_per_epoch: int,
        items_per_step: int = 1,
        items: str = "images",
        report_every: int | None = None,
        snapshot_every: int = 100,
        explain: Callable[[], str] | None = None,
    ) -> None:
        """Collect what belongs to a phase's state.

        Args:
            session: the run.
            phase: its name in metrics and checkpoints.
            n_steps: how many steps the phase has.
            modules: whose weights and buffers the phase changes.
            optimisers: whose moments must survive.
            generators: further sources of randomness.
            steps_per_epoch: to say which epoch it is.
            items_per_step: how many items a step works on, on all devices together.
            items: what they are called.
            report_every: steps between two lines of metrics; if not given 50, or fewer in a
                phase so short that it would have less than forty.
            snapshot_every: steps between two states a rollback may return to.
            explain: gives the advice shown when three rollbacks did not help.
        """
        if items_per_step < session.ranks.n_ranks:
            raise SettingsError(
                f"{phase}: {items_per_step} {items} per step cannot be shared among "
                f"{session.ranks.n_ranks} devices; use fewer devices or a larger batch_size"
            )
        self._session, self.phase, self.n_steps = session, phase, n_steps
        self.steps_per_epoch = steps_per_epoch
        self._modules, self._optimisers = dict(modules), dict(optimisers)
        self._generators = dict(generators or {})
        self._items, self.items_per_step = items, items_per_step
        self._report_every = report_every or min(50, max(1, n_steps // 40))
        self._snapshot_every = snapshot_every
        self._explain = explain
        self.share = session.ranks.own_share(items_per_step)
        self.step, self.step_factor = 0, 1.0
        self.memory: dict[str, Any] = {}
        self._settings: Any
        self._visited: Int64[Tensor, " n"] | PairSource
        self._epoch, self._batches = -1, list[tuple[Tensor, ...]]()
        self._halvings = 0
        self._sums: dict[str, tuple[float, int]] = {}
        self._noted: dict[str, float] = {}
        self._steps_since_report = 0
        self._failed = False
        self._good: dict[str, Any] = {}
        self._last_save = self._last_report = time.monotonic()
        # Several devices would have to agree on every new length.
        self._deadline = session.deadlines(phase) if session.ranks.n_ranks == 1 else None
        self._bend = (0, 0.0)  # the step, and the share of the schedule, of the last new length
        self._looked = (0, time.monotonic())  # the step and time of the last look at the clock

    @classmethod
    def over(
        cls,
        session: Session,
        phase: str,
        settings: Any,
        visited: Int64[Tensor, " n"] | PairSource,
        **options: Any,
    ) -> Loop:
        """Make the loop of a phase that visits items for some epochs.

        Args:
            session: the run.
            phase: its name in metrics and checkpoints.
            settings: the phase's section: epochs, batch size, learning rate and schedule.
            visited: rows or pairs; `batch` gives those of a step.
            **options: the other arguments of `Loop`.
        """
        batch_size = min(settings.batch_size, len(visited))
        per_epoch, n_steps = steps_in(settings.epochs, len(visited), batch_size)
        rate = getattr(settings, "learning_rate", None)
        if rate is not None:
            options.setdefault("explain", lambda: f"lower {phase}.learning_rate (now {rate:g})")
        loop = cls(
            session, phase, n_steps, steps_per_epoch=per_epoch, items_per_step=batch_size, **options
        )
        loop._settings, loop._visited = settings, visited
        return loop

    def batch(self) -> tuple[Tensor, ...]:
        """Give the items of this step; with several devices, this one's share of them.

        Every item comes once an epoch, in an order that depends on seed, phase and epoch alone.
        """
        epoch, position = divmod(self.step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator, visited = self._session.generator(self.phase, "order", epoch), self._visited
            if isinstance(visited, Tensor):
                shuffled = visited[torch.randperm(len(visited), generator=generator)]
                self._batches = [(part,) for part in torch.split(shuffled, self.items_per_step)]
            else:
                self._batches = list(visited.epoch(generator, self.items_per_step))
            self._epoch = epoch
        share = slice(self._session.ranks.rank, None, self._session.ranks.n_ranks)
        return tuple(part[share] for part in self._batches[position])

    def rate(self, optimiser: Optimizer, peak: float | None = None) -> float:
        """Give the learning rate of this step by the schedule of the phase's section."""
        schedule = getattr(self._settings, "schedule", "constant")
        peak = self._settings.learning_rate if peak is None else peak
        place = self._share_done() * self.n_steps if self._bend[0] > 0 else self.step
        return schedule_rate(optimiser, schedule, peak, place, self.n_steps)

    def minimise(self, optimiser: Optimizer, value: Tensor) -> bool:
        """Take a gradient step on a loss by the schedule; none, and False, if it is not finite."""
        if not self.check(value):
            return False
        self.descend(optimiser, value, self.rate(optimiser))
        return True

    def __iter__(self) -> Iterator[int]:
        """Yield step numbers; between two of them checkpoints and reports are written."""
        self._restore()
        bar, shown, length = self._bar(), self.step, self.n_steps
        self._session.inside_loop = True
        self._last_save = self._last_report = time.monotonic()
        self._looked = (self.step, self._last_save)
        try:
            while self.step < self.n_steps:
                if self.n_steps != length:
                    bar, shown, length = self._bar(), self.step, self.n_steps
                if self.step >= shown:
                    shown = next(bar) + 1
                yield self.step
                if self._failed:
                    self._roll_back()
                else:
                    self._finish_step()
            next(bar, None)  # lets the bar see its end
        finally:
            self._session.inside_loop = False

    def _bar(self) -> Iterator[int]:
        remaining = range(self.step, self.n_steps)
        return iter(self._session.progress(remaining, self.phase, len(remaining)))

    def check(self, value: Tensor) -> bool:
        """Say whether a loss is finite; if not, the step is abandoned and rolled back."""
        self._failed = self._session.any_device(not bool(torch.isfinite(value.detach()).all()))
        return not self._failed

    def descend(self, optimiser: Optimizer, value: Tensor, rate: float) -> None:
        """Take a gradient step on a loss; rollbacks take something off the learning rate."""
        self.differentiate(optimiser, value)
        for group in optimiser.param_groups:
            group["lr"] = rate * self.step_factor
        optimiser.step()

    def differentiate(self, optimiser: Optimizer, value: Tensor) -> None:
        """Compute the gradient of a mean loss over the whole batch, wherever its rows are."""
        optimiser.zero_grad()
        (value * self.share).backward()  # type: ignore[no-untyped-call]
        groups = optimiser.param_groups
        self._session.average_gradients(p for group in groups for p in group["params"])

    def record(self, **values: float) -> None:
        """Add a step's numbers, means over this device's rows, to the next report."""
        self._noted.update({name: float(value) for name, value in values.items()})

    def save(self) -> None:
        """Write a checkpoint of the state after the last whole step."""
        if self._session.writes:
            state = {"now": self._state(), "good": self._good}
            self._session.folder.save_checkpoint(self.phase, self.step, state)
        self._last_save = time.monotonic()

    def _finish_step(self) -> None:
        must_stop = self._agree_on_step()
        if self._session.threads is not None:
            self._session.threads.check()
        self.step += 1
        self._look_at_clock()
        self._steps_since_report += 1
        if self.step % self._report_every == 0 or self.step == self.n_steps:
            self._report()
        if self.step % self._snapshot_every == 0:
            state = copy.deepcopy(self._state())
            if self._session.any_device(not _finite(state["modules"])):
                self._failed = True
                self._roll_back()
                return
            self._good = state
        if must_stop:
            self.save()
            raise KeyboardInterrupt
        waited = time.monotonic() - self._last_save
        if waited >= self._session.settings.runtime.checkpoint_seconds:
            self.save()

    def _look_at_clock(self) -> None:
        """Make a phase that has a deadline longer or shorter, at the pace of the last steps."""
        if self._deadline is None or self.step >= self.n_steps:
            return
        (step, then), now, end = self._looked, time.monotonic(), self._deadline.when
        soon = now - then < _LOOK_AFTER * (end - then)
        if soon and self.step - step < _LOOK_AFTER * (self.n_steps - step):
            return
        self._looked = (self.step, now)
        left = int((end - now) * (self.step - step) / max(1e-9, now - then))
        most = max(self.step, math.ceil(self._deadline.most_epochs * self.steps_per_epoch))
        length = min(max(self.step + max(1, left), _FEWEST_STEPS), most)
        if abs(length - self.n_steps) > _WORTH_A_NEW_LENGTH * (self.n_steps - self.step):
            self._bend, self.n_steps = (self.step, self._share_done()), length

    def _share_done(self) -> float:
        """Say how far the schedule is; a new length stretches what is left of it."""
        step, share = self._bend
        return share + (1 - share) * (self.step - step) / (self.n_steps - step)

    def _agree_on_step(self) -> bool:
        """Average a step's numbers over devices; say whether any of them was asked to stop."""
        names, noted = list(self._noted), list(self._noted.values())
        wants = float(self._session.stop_requested)
        if self._session.ranks.n_ranks > 1:
            own = torch.tensor(
                [wants, *(value * self.share for value in noted)], dtype=torch.double
            )
            wants, *noted = self._session.average(own.to(self._session.device)).tolist()
        for name, value in zip(names, noted, strict=True):
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + value, count + 1)
        self._noted = {}
        return wants > 0

    def _report(self) -> None:
        means = {name: total / count for name, (total, count) in self._sums.items()}
        now = time.monotonic()
        n_items = self._steps_since_report * self.items_per_step
        rate = n_items / max(1e-9, now - self._last_report)
        pace = {"epoch": self.step / self.steps_per_epoch, f"{self._items}_per_second": rate}
        self._session.write(self.phase, self.step, **means, **pace)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in list(means.items())[:3])
        logger.info("%s: %s, %s %s/s", self.phase, shown, f"{rate:,.0f}", self._items)
        self._sums, self._steps_since_report, self._last_report = {}, 0, now

    def _roll_back(self) -> None:
        """Return to the last good state with half the step size, at most three times."""
        self._failed, self._noted = False, {}
        halvings, factor, failed_at = self._halvings + 1, self.step_factor / 2, self.step
        advice = self._explain() if self._explain else "a lower learning rate may help"
        if halvings > _MOST_HALVINGS:
            message = (
                f"{self.phase}: the loss is not finite at step {failed_at}, and halving the step "
                f"{_MOST_HALVINGS} times did not help; {advice}"
            )
            self._session.write(self.phase, failed_at, sign="not-finite", finding=message)
            raise TrainingFailure(message)
        self._load(copy.deepcopy(self._good))
        self._halvings, self.step_factor = halvings, factor
        self._good["halvings"], self._good["step_factor"] = halvings, factor
        self._session.find(
            self.phase,
            failed_at,
            f"not-finite-{halvings}",
            f"the loss was not finite at step {failed_at}; went back to step {self.step} with "
            f"{factor:g} of the step size ({advice})",
        )

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "step_factor": self.step_factor,
            "halvings": self._halvings,
            "sums": dict(self._sums),
            "memory": self.memory,
            "pace": [self.n_steps, *self._bend],
            "modules": {name: m.state_dict() for name, m in self._modules.items()},
            "optimisers": {name: o.state_dict() for name, o in self._optimisers.items()},
            "generators": {name: g.get_state() for name, g in self._generators.items()},
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self.step, self.step_factor = state["step"], state["step_factor"]
        self._halvings = state["halvings"]
        self._sums = dict(state["sums"])
        self.memory = state["memory"]
        n_steps, bend, share = state.get("pace", (0, 0, 0.0))
        if bend > 0:  # the length is no longer that of the settings
            self.n_steps, self._bend = n_steps, (bend, share)
        for name, module in self._modules.items():
            module.load_state_dict(state["modules"][name])
        for name, optimiser in self._optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
            _match_layout(optimiser)
        for name, generator in self._generators.items():
            generator.set_state(state["generators"][name])

    def _restore(self) -> None:
        """Go to the newest checkpoint, if there is one."""
        found, complaints = self._session.folder.load_checkpoint(self.phase)
        # No device may write a newer checkpoint while another still looks for the newest.
        self._session.ranks.wait()
        for complaint in complaints:
            logger.warning(complaint)
        if found is None:
            self._good = copy.deepcopy(self._state())
            self._session.rewind(self.phase, -1)
            return
        self._load(found["now"])
        self._good = found["good"]
        self._session.rewind(self.phase, self.step)
        logger.info("%s: continuing at step %d of %d", self.phase, self.step, self.n_steps)


def _finite(state: Any) -> bool:
    if isinstance(state, Tensor):
        return not state.is_floating_point() or bool(torch.isfinite(state).all())
    return all(_finite(item) for item in state.values())


def _match_layout(optimiser: Optimizer) -> None:
    """Give moments the memory layout of their weights.

    Files hold plain contiguous tensors; arithmetic on mixed layouts rounds differently, and a
    resumed run would drift from an uninterrupted one in the last bit.
    """
    for parameter, moments in optimiser.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                moments[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
