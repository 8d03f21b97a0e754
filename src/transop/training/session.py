"""What every phase of a run shares: settings, folder, device, seeds, metrics and interruptions."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from transop.artifacts import RunFolder
from transop.config import PHASES, RuntimeSettings, Settings
from transop.errors import SettingsError
from transop.extras import missing_modules
from transop.files import make_folder
from transop.progress import Progress, silent
from transop.sharing import Ranks, is_launched
from transop.training.shared_norm import share_batch_norm
from transop.training.threads import ThreadWatch


class EventFile:
    """One file of TensorBoard's, open only while something is added to it."""

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        """Begin a file for a phase; TensorBoard forgets earlier files from ``purge_step`` on."""
        make_folder(folder)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        self._append(file_version="brain.Event:2")
        if purge_step is not None:
            self._append(step=purge_step, session_log={"status": "START"})

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add the numbers of a step."""
        numbers = [{"tag": name, "simple_value": float(v)} for name, v in values.items()]
        self._append(step=step, summary={"value": numbers})

    def _append(self, **event: Any) -> None:
        # Imported when they are needed: that takes half a second.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("ab") as file:
            RecordWriter(file).write(Event(wall_time=time.time(), **event).SerializeToString())


logger = logging.getLogger(__name__)

_FEWEST_PROCESSES = 2  # may be asked for on any machine, to try several out


@dataclass(frozen=True)
class Deadline:
    """When a phase must be done, whatever number of steps that allows."""

    when: float  # by ``time.monotonic``
    most_epochs: float  # as long as it may become where the machine is faster than expected


def no_deadline(phase: str) -> Deadline | None:
    """Let every phase take the time it needs."""


@dataclass
class Session:
    """One run in progress."""

    settings: Settings
    folder: RunFolder
    ranks: Ranks  # this process among those of the run, and its device
    progress: Progress = silent
    # What the diagnostics noticed so far, by phase and sign.
    findings: dict[tuple[str, str], str] = field(default_factory=dict)
    stop_requested: bool = False
    inside_loop: bool = False
    threads: ThreadWatch | None = None
    deadlines: Callable[[str], Deadline | None] = no_deadline  # asked by a phase that begins
    _events: dict[str, EventFile] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: Settings, folder: RunFolder, progress: Progress = silent) -> Session:
        """Begin a session on the device that the settings ask for."""
        return cls(settings, folder, Ranks(device=choose_device(settings.runtime)), progress)

    @property
    def device(self) -> torch.device:
        """Where tensors live."""
        return self.ranks.device

    @property
    def writes(self) -> bool:
        """Whether this process writes to the run folder: the first of all."""
        return self.ranks.rank == 0

    def seed(self, *names: str | int) -> int:
        """Derive an independent seed from the run's seed and a purpose."""
        text = "/".join(str(name) for name in (self.settings.runtime.seed, *names))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1

    def generator(self, *names: str | int) -> torch.Generator:
        """Make a generator for a purpose; the same names give the same numbers."""
        return torch.Generator().manual_seed(self.seed(*names))

    @contextmanager
    def seeded(self, *names: str | int) -> Iterator[None]:
        """Let modules draw their first weights from a seed of their own."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed(*names))
            yield

    def any_device(self, statement: bool) -> bool:
        """Say whether a statement is true on any device, so that all of them act alike."""
        return not self.ranks.all(not statement)

    def average(self, values: Tensor) -> Tensor:
        """Average a tensor over devices, in place where there are several."""
        if self.ranks.n_ranks > 1:
            torch.distributed.all_reduce(values)
            values /= self.ranks.n_ranks
        return values

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Average gradients over devices, all of them in one message."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.ranks.n_ranks == 1 or not gradients:
            return
        packed = self.average(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = torch.split(packed, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))

    def set_up(self, module: nn.Module) -> Callable[..., Any]:
        """Prepare a module for training on the devices of the run.

        With several devices, batch normalisation sees the whole batch. What is returned is called
        instead of the module: it computes in the precision of the run and gives single precision.
        """
        if self.ranks.n_ranks > 1:
            share_batch_norm(module)
        wanted = self.settings.runtime.precision
        if wanted == "32-true" or (wanted == "auto" and not computes_in_half(self.device)):
            return module

        def in_half(*inputs: Any) -> Any:
            with torch.autocast(self.device.type, torch.bfloat16):
                found = module(*inputs)
            return tuple(map(_single, found)) if isinstance(found, tuple) else _single(found)

        return in_half

    def write(self, phase: str, step: int, **values: Any) -> None:
        """Add a line to the metrics, and numbers to TensorBoard's files where it is installed."""
        if not self.writes:
            return
        self.folder.append_metrics({"phase": phase, "step": step, **values})
        numbers = {
            f"{phase}/{name}": value
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        if numbers and not missing_modules("tensorboard"):
            self._tensorboard(phase).add(step, numbers)

    def find(self, phase: str, step: int, sign: str, finding: str) -> None:
        """Record a sign of trouble and the remedy, in words, the first time a phase shows it."""
        if (phase, sign) not in self.findings:
            self.findings[phase, sign] = finding
            self.write(phase, step, sign=sign, finding=finding)
            logger.warning("%s: %s", phase, finding)

    def recall_findings(self) -> None:
        """Take up what an earlier part of the run noticed."""
        for record in self.folder.read_metrics():
            if "finding" in record:
                self.findings[record["phase"], record["sign"]] = record["finding"]

    def rewind(self, phase: str, step: int) -> None:
        """Forget what a phase wrote after the last step that counts; -1 if none does."""
        if self.writes and self.folder.metrics_file.exists():
            self.folder.rewind_metrics(phase, step)
            self.findings = {key: f for key, f in self.findings.items() if key[0] != phase}
            self.recall_findings()
            folder = self.folder.path / "tensorboard" / phase
            if folder.exists() and not missing_modules("tensorboard"):
                self._tensorboard(phase, purge_step=step + 1)

    def _tensorboard(self, phase: str, purge_step: int | None = None) -> EventFile:
        if phase not in self._events:
            folder = self.folder.path / "tensorboard" / phase
            self._events[phase] = EventFile(folder, purge_step=purge_step)
        return self._events[phase]

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM finish the step at hand; a second one stops at once."""

        def request_stop(number: int, frame: FrameType | None) -> None:
            if not self.inside_loop or self.stop_requested:
                raise KeyboardInterrupt
            self.stop_requested = True
            logger.info("stopping after this step; press Ctrl-C again to stop at once")

        with handling_signals(request_stop):
            yield


@contextmanager
def handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let a function handle Ctrl-C and SIGTERM; threads that cannot leave them as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def computes_in_half(device: torch.device) -> bool:
    """Say whether a device has instructions for bfloat16; elsewhere it is slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Older versions of torch cannot tell.
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return device.type == "cpu" and bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def choose_device(runtime: RuntimeSettings, local_rank: int = 0) -> torch.device:
    """Choose the device that was asked for; each process of a machine has a GPU of its own."""
    kind, index = _accelerator(runtime), runtime.device.partition(":")[2]
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(kind, True):
        raise SettingsError(
            f"runtime.device = '{runtime.device}', but torch sees no such device here; use cpu"
        )
    if kind != "cuda":
        return torch.device(kind)
    n_here, _ = count_processes(runtime)
    number = int(index) if index.isdigit() and n_here == 1 else local_rank
    if max(number + 1, n_here) > torch.cuda.device_count():
        raise SettingsError(
            f"runtime.device = '{runtime.device}' with {n_here} processes, but torch sees "
            f"{torch.cuda.device_count()} GPUs here"
        )
    return torch.device("cuda", number)


def check_devices(settings: Settings) -> None:
    """Refuse more processes than the machine has processors, or than a batch has items."""
    runtime = settings.runtime
    n_here, n_all = count_processes(runtime)
    if not is_launched() and _accelerator(runtime) == "cpu":
        most = max(_FEWEST_PROCESSES, count_processors())
        if n_here > most:
            raise SettingsError(
                f"runtime.devices = {n_here}, but this machine has {count_processors()} "
                f"processors; use at most {most} devices"
            )
    for name in PHASES:
        section = getattr(settings, name)
        if section.epochs > 0 and section.batch_size < n_all:
            raise SettingsError(
                f"runtime.devices = {n_all}, but {name}.batch_size = "
                f"{section.batch_size}: every device needs one item of a batch; use at most "
                f"{section.batch_size} devices or a larger {name}.batch_size"
            )


def count_processors() -> int:
    """Say how many processors this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return allowed or os.cpu_count() or 1


def count_processes(runtime: RuntimeSettings) -> tuple[int, int]:
    """Count the processes of a run, on this machine and on all: as torchrun says, else as set."""
    if not is_launched():
        return runtime.devices, runtime.devices
    n_here, n_all = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    if runtime.devices not in (1, n_here):
        raise SettingsError(
            f"runtime.devices = {runtime.devices}, but torchrun started {n_here} processes here; "
            "leave --devices out"
        )
    return n_here, n_all


def _accelerator(runtime: RuntimeSettings) -> str:
    """Name the kind of device that is asked for, or the best one there is."""
    kind = runtime.device.partition(":")[0]
    if kind not in ("auto", "cpu", "cuda", "mps"):
        raise SettingsError(
            f"runtime.device = '{runtime.device}' is unknown; use auto, cpu, cuda, cuda:N or mps"
        )
    if kind != "auto":
        return kind
    best = "mps" if torch.backends.mps.is_available() else "cpu"
    return "cuda" if torch.cuda.is_available() else best


def _single(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    return value.float() if is_half else value
