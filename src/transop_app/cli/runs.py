"""Which folder a run goes to, and what is done with a run that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transop.errors import UserError

if TYPE_CHECKING:
    from transop.artifacts import RunFolder
    from transop.config import Settings

    _Kind = TypeVar("_Kind", bound=Settings)

# What may differ when a run is continued: where it computes, not what.
_MAY_CHANGE = ("runtime.device", "runtime.devices", "runtime.checkpoint_seconds")


def stored_settings(folder: RunFolder, kind: type[_Kind]) -> _Kind | None:
    """Read the settings of the run in a folder, or None if there is no run."""
    from transop.config import load_settings

    return load_settings(folder.config_file, (), kind) if folder.config_file.exists() else None


def check_resumable(folder: RunFolder, *, force: bool) -> None:
    """Refuse to continue what does not exist, or to continue and start anew at once."""
    if force:
        raise UserError("--resume continues a run and --force starts it anew; give one of them")
    if not folder.path.exists():
        raise UserError(
            f"--resume: there is no folder '{folder.path}' to continue; "
            "leave --resume out to start a run there, or name the right --out"
        )


def claim_folder(folder: RunFolder, *, force: bool) -> None:
    """Make sure a new run would overwrite nothing.

    ``force`` moves an earlier run out of the way under another name.
    """
    path = folder.path
    if not listed(path):
        return
    if not folder.config_file.exists():
        raise UserError(
            f"--out '{path}' holds files that are not a run of transop; choose a new folder"
        )
    begun = (path / "model.safetensors", folder.metrics_file, folder.checkpoints)
    if not any(file.exists() for file in begun):
        # A run that was refused, for a missing data set say: a corrected one may start.
        with folder.locked():
            for file in (folder.config_file, folder.environment_file, folder.data_file):
                file.unlink(missing_ok=True)
        return
    if not force:
        raise UserError(
            f"--out '{path}' holds a run already; continue it with --resume, "
            "start anew with --force, or choose another folder"
        )
    with folder.locked():  # never move a run away from a process that is writing it
        move_aside(path)


def listed(path: Path) -> set[str]:
    """Name what a folder for results holds already; hidden files do not count."""
    if path.exists() and not path.is_dir():
        raise UserError(f"--out '{path}' is a file; choose a folder")
    names = {entry.name for entry in path.iterdir()} if path.exists() else set()
    return {name for name in names if not name.startswith(".")}


def move_aside(path: Path) -> None:
    """Keep an earlier folder under another name."""
    names = (path.with_name(f"{path.name}.earlier-{number}") for number in count(1))
    path.rename(next(name for name in names if not name.exists()))


def settings_to_resume(stored: _Kind, wanted: _Kind, overrides: Sequence[str], path: Path) -> _Kind:
    """Take up a run's own settings, with overrides that change nothing it has learned from.

    Args:
        stored: what the run was started with.
        wanted: what the recipe and the overrides ask for now.
        overrides: the ``section.key=value`` given now; those left out stay as stored.
        path: the run's folder, for the error.
    """
    if stored.recipe != wanted.recipe:
        raise UserError(
            f"--resume: '{path}' holds a run of recipe '{stored.recipe}', not '{wanted.recipe}'"
        )
    settings = stored.updated(overrides)
    before, after = _flat(stored.model_dump()), _flat(settings.model_dump())
    for key, value in after.items():
        if value != before[key] and key not in _MAY_CHANGE:
            raise UserError(
                f"--resume: {key} = {value!r}, but the run in '{path}' was started with "
                f"{before[key]!r}; leave it out, or choose another --out"
            )
    return settings


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Name every value of a nested mapping by its dotted path."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
