"""Train any model through phases of its own: one run folder, lock, resume and set of processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch

from transop.artifacts import RunFolder, describe_environment, write_atomically, write_json
from transop.config import Settings, load_settings
from transop.data import ImageDataset
from transop.data.run_data import ARRAY, DataRecord, load_run_data, open_run_data, with_source
from transop.errors import ArtifactError
from transop.progress import Progress, silent
from transop.sharing import Ranks, is_first_process
from transop.training.processes import run_on_several
from transop.training.session import (
    Deadline,
    Session,
    check_devices,
    choose_device,
    count_processes,
    no_deadline,
)
from transop.training.threads import ThreadWatch, threads_put_back

logger = logging.getLogger(__name__)

# Loops inside a phase. Their checkpoints stay until the whole phase is done: a run that was killed
# at its very end would otherwise begin the inner loop again.
_INNER_LOOPS = {"coefficient_encoder": ("distillation",)}

# A phase changes the model in place and returns the numbers worth keeping.
Phase = Callable[[Session, Any, ImageDataset], dict[str, Any]]
Trained = TypeVar("Trained")


@dataclass(frozen=True)
class TrainingPlan(Generic[Trained]):
    """What a run trains. All of it must be importable by name: processes are started with it."""

    # Opens the model that a run has stored so far.
    load: Callable[[Settings, Path, torch.device | None], Trained]
    # Gives the untrained model: a module with ``phases`` and ``save_pretrained``.
    build: Callable[[Session, ImageDataset], Trained]
    # Names the phases in order; a phase whose name the model remembers is left out.
    phases: Callable[[Settings, ImageDataset], dict[str, Phase]]
    # Asked when a phase begins; gives None unless it is to end by the clock.
    deadlines: Callable[[str], Deadline | None] = no_deadline


def train_phases(
    settings: Settings,
    folder: RunFolder,
    plan: TrainingPlan[Trained],
    *,
    dataset: Any = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train any model through phases of its own; the other arguments are those of `train`."""
    progress = progress or silent
    if dataset is not None and not resume:
        settings = with_source(settings, ARRAY)
    check_devices(settings)
    device = choose_device(settings.runtime)  # a wrong one is refused before anything is written
    # torchrun starts this function once per device, but only one of them writes.
    with folder.locked() if is_first_process() else nullcontext():
        if is_first_process():
            _prepare(settings, folder, resume)
        if count_processes(settings.runtime)[1] == 1:
            return _work(Ranks(device=device), settings, folder, plan, dataset, progress)
        facts = {"settings": settings, "folder": folder, "plan": plan, "dataset": dataset}
        run_on_several(settings.runtime, partial(_work, **facts, progress=silent))
        return plan.load(settings, folder.path, None)


def _work(
    ranks: Ranks,
    settings: Settings,
    folder: RunFolder,
    plan: TrainingPlan[Trained],
    dataset: Any,
    progress: Progress,
) -> Trained:
    """Do the whole run on one device, alone or as one of several."""
    session = Session(settings, folder, ranks, progress, deadlines=plan.deadlines)
    session.recall_findings()
    with session.catching_interrupts(), threads_put_back():
        if DataRecord.read(folder) is not None:  # the very images the run began with
            images = open_run_data(folder, settings, dataset=dataset, progress=progress)
        else:
            images = load_run_data(settings, dataset=dataset, progress=progress)
            if session.writes:
                DataRecord.of(images, settings.data.source).write(folder)
        if ranks.n_ranks == 1:  # several processes have shared out the threads already
            session.threads = ThreadWatch(settings.runtime.threads, session.device)
            session.threads.check()
        return _run_phases(session, plan, images)


def _run_phases(session: Session, plan: TrainingPlan[Trained], dataset: ImageDataset) -> Trained:
    model: Any
    if session.folder.model_file.exists():
        model = plan.load(session.settings, session.folder.path, session.device)
    else:
        model = plan.build(session, dataset)
        model = model.to(session.device)
    for name, phase in plan.phases(session.settings, dataset).items():
        if name in model.phases:
            logger.info("%s: already done", name)
            if session.writes:
                _drop_checkpoints(session, name)
            continue
        start = time.monotonic()
        numbers = phase(session, model, dataset)
        model.phases = (*model.phases, name)
        model.eval()
        if session.writes:
            _conclude(session, model, name, time.monotonic() - start, numbers)
    session.ranks.wait()  # under torchrun the other processes load what the first has written
    for (phase_name, _), finding in session.findings.items():
        logger.warning("noticed during %s: %s", phase_name, finding)
    return cast(Trained, model)


def _conclude(
    session: Session, model: Any, phase: str, seconds: float, numbers: dict[str, Any]
) -> None:
    """Store what a phase has led to.

    The model comes after what is said about it: only with the model is the phase done, so a power
    cut in between repeats the end of the phase and loses no number.
    """
    facts = {key: value for key, value in numbers.items() if not isinstance(value, list)}
    seconds = round(seconds, 2)
    session.write(phase, -1, event="finished", seconds=seconds, **numbers)
    session.folder.mark_finished(phase, seconds=seconds, **facts)
    model.save_pretrained(session.folder.path)
    _drop_checkpoints(session, phase)


def _drop_checkpoints(session: Session, phase: str) -> None:
    for name in (phase, *_INNER_LOOPS.get(phase, ())):
        session.folder.drop_checkpoints(name)


def refuse_run(folder: RunFolder) -> None:
    """Refuse a folder that holds a run already."""
    if folder.config_file.exists() or folder.model_file.exists():
        raise ArtifactError(
            f"'{folder.path}' already holds a run; continue it (resume=True, --resume) or choose "
            "another folder"
        )


def _prepare(settings: Settings, folder: RunFolder, resume: bool) -> None:
    """Write what describes the run, or check that it is the run to continue."""
    if resume and folder.config_file.exists():
        _check_same_settings(settings, folder)
        return
    refuse_run(folder)
    write_atomically(folder.config_file, settings.to_toml().encode())
    write_json(folder.environment_file, describe_environment(settings.runtime.seed))


def _check_same_settings(wanted: Settings, folder: RunFolder) -> None:
    """Refuse to continue a run with settings that would have led elsewhere."""
    kept = load_settings(folder.config_file, (), type(wanted))
    for section, value in wanted:
        before = getattr(kept, section)
        if section == "runtime":
            value, before = value.seed, before.seed
        if section == "data":  # where the images are may change; the record tells if they did
            value = value.model_copy(update={"source": before.source})
        if section != "recipe" and value != before:
            raise ArtifactError(
                f"the run in '{folder.path}' has other settings in '{section}'; resume without "
                "changing them, or start anew with another --out"
            )
