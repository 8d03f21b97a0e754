"""The run folder: what a run leaves behind."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from transop.artifacts.state import load_state, read_json, save_state, write_atomically, write_json
from transop.errors import ArtifactError
from transop.files import make_folder


def describe_environment(seed: int) -> dict[str, Any]:
    """Collect what someone needs to repeat a run: versions, commit, seed and hardware."""
    packages = ("transop", "torch", "numpy", "numba", "scipy")
    return {
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in packages},
        "commit": _commit(),
        "seed": seed,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Name the commit of the source tree, when transop runs from one; "-dirty" if it was changed.

    Files outside the source, such as numbers that were measured, do not count as changes.
    """
    source = Path(__file__).resolve().parents[2]

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=5)

    try:
        found = git("describe", "--always", "--abbrev=12")
        changed = git("diff", "--quiet", "HEAD", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    commit = found.stdout.strip()
    if found.returncode or not commit:
        return None
    return f"{commit}-dirty" if changed.returncode else commit


class _Inside:
    """The path of one file or folder in a run."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, kind: type[RunFolder]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run, and the few ways its files are written and read."""

    path: Path

    config_file = _Inside("config.toml")  # the fully resolved settings
    environment_file = _Inside("environment.json")  # versions, commit, seed and hardware
    model_file = _Inside("model.safetensors")  # the weights of what was learned so far
    data_file = _Inside("data.json")  # source, number, shape, classes and content hash
    held_out_file = _Inside("held-out.npz")  # a run that is passed on: some images of its own
    metrics_file = _Inside("metrics.jsonl")  # one JSON object per line
    phases_file = _Inside("phases.json")  # which phases are done, and how long each took
    checkpoints = _Inside("checkpoints")  # folder of resumable states
    figures = _Inside("figures")  # folder of pictures, each beside its numbers

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process from writing into the same run."""
        try:
            make_folder(self.path)
            lock = FileLock(self.path / ".lock")
            lock.acquire(timeout=0)
        except Timeout:
            raise ArtifactError(
                f"another process is writing to '{self.path}'; wait for it, stop it, "
                "or choose another --out"
            ) from None
        except OSError as error:
            raise ArtifactError(f"cannot write to '{self.path}': {error.strerror}") from None
        try:
            # What a killed process was writing; nobody else writes while we hold the lock.
            for left in (*self.path.glob(".*.tmp"), *self.checkpoints.glob(".*.tmp")):
                left.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Add one line to the metrics."""
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**record, "time": round(time.time(), 3)}) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read all metrics; a last line cut short by a crash is left out."""
        if not self.metrics_file.exists():
            return []
        records = []
        for line in self.metrics_file.read_text("utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                records.append(record)
        return records

    def rewind_metrics(self, phase: str, step: int) -> None:
        """Drop what a phase wrote after a step, before it is computed again on resume."""
        text = ""
        for record in self.read_metrics():
            at = record.get("step")  # a closing line has a step below zero
            if record.get("phase") != phase or (isinstance(at, int) and 0 <= at <= step):
                text += json.dumps(record) + "\n"
        write_atomically(self.metrics_file, text.encode())

    def finished_phases(self) -> dict[str, Any]:
        """Say which phases are done: name to facts such as seconds."""
        if not self.phases_file.exists():
            return {}
        phases = read_json(self.phases_file)
        if not isinstance(phases, dict):
            raise ArtifactError(f"'{self.phases_file}' does not hold a table of phases")
        return phases

    def mark_finished(self, phase: str, **facts: Any) -> None:
        """Record that a phase is done."""
        write_json(self.phases_file, {**self.finished_phases(), phase: facts})

    def save_checkpoint(self, phase: str, step: int, state: Mapping[str, Any]) -> Path:
        """Store a resumable state and keep only it and the one before."""
        path = self.checkpoints / f"{phase}-{step:09d}.safetensors"
        save_state(path, state, kind="checkpoint")
        for old in self._checkpoint_files(phase)[:-2]:
            old.unlink(missing_ok=True)
        return path

    def load_checkpoint(self, phase: str) -> tuple[dict[str, Any] | None, list[str]]:
        """Read a phase's newest whole checkpoint, with a sentence for every damaged one."""
        complaints: list[str] = []
        for path in reversed(self._checkpoint_files(phase)):
            try:
                return load_state(path, kind="checkpoint"), complaints
            except ArtifactError as error:
                complaints.append(f"{error}; going back to the checkpoint before it")
        return None, complaints

    def drop_checkpoints(self, phase: str) -> None:
        """Remove a phase's checkpoints once its result is stored."""
        for path in self._checkpoint_files(phase):
            path.unlink(missing_ok=True)

    def _checkpoint_files(self, phase: str) -> list[Path]:
        return sorted(self.checkpoints.glob(f"{phase}-*.safetensors"))
