"""The run folder: what a run leaves behind, written so that a power cut loses nothing.

Every file is written aside, flushed to disk and renamed into place. Tensors are stored as
safetensors with a digest, everything else as JSON or TOML; nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from transop.errors import ArtifactError
from transop.files import make_folder, read_regular, reason_of, refuse_odd_target

FORMAT_VERSION = 1
_LARGEST_JSON = 2**26  # bytes
_TENSOR = "__tensor__"
_TUPLE = "__tuple__"
_KEYED = "__keyed__"
_LONGEST_JSON = 2**26  # bytes


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content in one step, so that no reader ever sees half of it."""
    make_folder(path.parent)
    try:
        refuse_odd_target(path)
    except OSError as error:
        raise ArtifactError(
            f"cannot write to '{path}': {reason_of(error)}; choose another file"
        ) from None
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        if error.errno is not None:  # a failed write names no file, a failed open the one aside
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must reach the disk too
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing or damaged one is named in the error."""
    try:
        return json.loads(read_regular(path, most_bytes=_LARGEST_JSON).decode("utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"'{path}' does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"'{path}' is not readable JSON: {error}") from None


def save_state(path: Path, state: Mapping[str, Any], *, kind: str) -> None:
    """Write a nested state (tensors, numbers, strings, dicts, lists) as one safetensors file.

    Args:
        path: where to write.
        state: e.g. ``{"model": module.state_dict(), "step": 7}``.
        kind: what the file is, e.g. ``"checkpoint"``; loading checks it.
    """
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_take_apart(dict(state), "", tensors))
    info = {
        "format": "transop",
        "format_version": str(FORMAT_VERSION),
        "kind": kind,
        "state": skeleton,
        "digest": _digest(tensors, skeleton),
    }
    write_atomically(path, _in_fixed_order(save(tensors, metadata=info)))


def _in_fixed_order(content: bytes) -> bytes:
    """Sort the notes in a safetensors header, so that equal states are equal files.

    The library writes them in an order that changes from process to process.
    """
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of eight bytes
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(content)[8 + length :]])


def load_state(
    path: Path, *, kind: str, inspect: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """Read what ``save_state`` wrote, refusing damaged, foreign and newer files by name.

    Args:
        path: the file.
        kind: what it must be, as ``save_state`` was told.
        inspect: sees the state with tensors that have a shape and a type but no values, before
            any value is read; it raises if it does not like them.
    """
    with _opened(path) as file:
        info = file.metadata() or {}
        _check_header(path, info, kind)
        skeleton = info.get("state", "")
        names = list(file.keys())
        if inspect is not None:
            shapes = {name: _without_values(file.get_slice(name)) for name in names}
            inspect(_rebuild(path, skeleton, shapes))
        tensors = {name: file.get_tensor(name) for name in names}
    if info.get("digest") != _digest(tensors, skeleton):
        raise ArtifactError(f"'{path}' is damaged: its content does not match its digest")
    return _rebuild(path, skeleton, tensors)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file; whatever is wrong with it is told in our words."""
    try:
        if not path.is_file():
            raise ArtifactError(f"'{path}' does not exist or is no file")
        with safe_open(path, framework="pt") as file:
            yield file
    except ArtifactError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError) as error:
        raise ArtifactError(
            f"'{path}' is not a complete safetensors file (truncated or foreign): {error}"
        ) from None


def _check_header(path: Path, info: Mapping[str, str], kind: str) -> None:
    if info.get("format") != "transop":
        raise ArtifactError(f"'{path}' was not written by transop")
    version = info.get("format_version", "")
    if version not in map(str, range(1, FORMAT_VERSION + 1)):
        raise ArtifactError(
            f"'{path}' has format version {version[:20] or 'unknown'}, this transop reads up to "
            f"{FORMAT_VERSION}; upgrade transop to load it"
        )
    if info.get("kind") != kind:
        raise ArtifactError(f"'{path}' holds a {info.get('kind')}, not a {kind}")


def _without_values(part: Any) -> Tensor:
    """Make a tensor of a stored one's shape and type that takes no memory."""
    empty = part[:0] if part.get_shape() else part[...]
    return torch.empty(part.get_shape(), dtype=empty.dtype, device="meta")


def _rebuild(path: Path, skeleton: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Put a state together again, or say that its description makes no sense."""
    try:
        state = _put_together(json.loads(skeleton), tensors)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(f"'{path}' is damaged: {type(error).__name__} {error}") from None
    if not isinstance(state, dict):
        raise ArtifactError(f"'{path}' is damaged: it holds no table of values")
    return state


def _digest(tensors: Mapping[str, Tensor], skeleton: str) -> str:
    digest = hashlib.blake2b(skeleton.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        flat = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(flat.numpy().data)
    return digest.hexdigest()


def _take_apart(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Replace every tensor by a reference and collect it; the rest must be JSON."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {k: _take_apart(v, f"{name}/{k}", tensors) for k, v in value.items()}
        pairs = [[k, _take_apart(v, f"{name}/{k}", tensors)] for k, v in value.items()]
        return {_KEYED: pairs}  # optimisers number their parameters
    if isinstance(value, list | tuple):
        items = [_take_apart(v, f"{name}/{i}", tensors) for i, v in enumerate(value)]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"cannot store {type(value).__name__} under '{name}'")


def _put_together(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if _TENSOR in value:
            return tensors[value[_TENSOR]]
        if _TUPLE in value:
            return tuple(_put_together(v, tensors) for v in value[_TUPLE])
        if _KEYED in value:
            return {k: _put_together(v, tensors) for k, v in value[_KEYED]}
        return {k: _put_together(v, tensors) for k, v in value.items()}
    if isinstance(value, list):
        return [_put_together(v, tensors) for v in value]
    return value


def _is_until(record: Mapping[str, Any], step: int) -> bool:
    """Say whether a line was written up to a step; a closing line has a step below zero."""
    return isinstance(record.get("step"), int) and 0 <= record["step"] <= step


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
    """Name the commit of the source tree, when transop runs from one."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run, and the few ways its files are written and read."""

    path: Path

    @property
    def config_file(self) -> Path:
        """The fully resolved settings."""
        return self.path / "config.toml"

    @property
    def environment_file(self) -> Path:
        """Versions, commit, seed and hardware."""
        return self.path / "environment.json"

    @property
    def model_file(self) -> Path:
        """The weights of what was learned so far."""
        return self.path / "model.safetensors"

    @property
    def data_file(self) -> Path:
        """What the run was trained on: source, number, shape, classes and content hash."""
        return self.path / "data.json"

    @property
    def metrics_file(self) -> Path:
        """One JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def phases_file(self) -> Path:
        """Which phases are done, and how long each took."""
        return self.path / "phases.json"

    @property
    def checkpoints(self) -> Path:
        """Folder of resumable states."""
        return self.path / "checkpoints"

    @property
    def figures(self) -> Path:
        """Folder of pictures, each beside the numbers it was drawn from."""
        return self.path / "figures"

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
            self._sweep()
            yield
        finally:
            lock.release()

    def _sweep(self) -> None:
        """Remove what a killed process was writing; nobody else writes while we hold the lock."""
        for folder in (self.path, self.checkpoints):
            for left in folder.glob(".*.tmp"):
                left.unlink(missing_ok=True)

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
        kept = [r for r in self.read_metrics() if r.get("phase") != phase or _is_until(r, step)]
        text = "".join(json.dumps(record) + "\n" for record in kept)
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
        """Read a phase's newest whole checkpoint.

        Returns:
            The state, or None if there is none, and a sentence for every damaged file passed over.
        """
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
