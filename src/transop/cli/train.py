"""``transop train``: run the phases of a recipe."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transop.cli.runs import (
    DataOption,
    check_resumable,
    claim_folder,
    settings_to_resume,
    stored_settings,
)
from transop.cli.terminal import Terminal
from transop.errors import UserError

if TYPE_CHECKING:
    from transop.artifacts import RunFolder
    from transop.config import Settings

    _Kind = TypeVar("_Kind", bound=Settings)

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting; repeatable."),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of all randomness.")]
DeviceOption = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
DevicesOption = Annotated[int | None, typer.Option(help="Train on so many devices at once.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Start anew; an earlier run is kept under another name.")
]
ShowSettingsOption = Annotated[
    bool, typer.Option("--show-settings", help="Print the settings as TOML; train nothing.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def train(
    ctx: typer.Context,
    recipe: RecipeArgument,
    changes: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/RECIPE if left out.", show_default=False)
    ] = None,
    seed: SeedOption = None,
    device: DeviceOption = None,
    devices: DevicesOption = None,
    resume: ResumeOption = False,
    data: DataOption = None,
    force: ForceOption = False,
    show_settings: ShowSettingsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model: every phase of a recipe that is not done yet."""
    from transop.config import load_settings

    terminal: Terminal = ctx.obj
    options = {"seed": seed, "device": device, "devices": devices}
    overrides = [*(changes or ()), *as_overrides(options, "runtime.")]
    settings = load_settings(recipe, overrides)
    if show_settings:
        terminal.result(settings.to_toml().rstrip())
        return

    from transop.training import train as train_run

    text = f"train {shlex.quote(recipe)}"
    command = TrainingCommand(text, overrides, resume, data, force, as_json)
    train_in_folder(terminal, settings, out or Path("runs") / settings.recipe, command, train_run)


@dataclass(frozen=True)
class TrainingCommand:
    """What the user typed.

    Attributes:
        text: the command without ``transop`` and --out, to be called again.
        overrides: the settings that were given.
        resume: continue the run in the folder.
        data: the images of the run that is continued, if they have moved.
        force: move an earlier run out of the way.
        as_json: print the summary as JSON.
    """

    text: str
    overrides: Sequence[str]
    resume: bool
    data: Path | None
    force: bool
    as_json: bool


def train_in_folder(
    terminal: Terminal,
    settings: _Kind,
    out: Path,
    command: TrainingCommand,
    train: Callable[..., object],
) -> None:
    """Train in a new folder, or continue the run that is there, and sum it up.

    Args:
        terminal: where to say so.
        settings: of the recipe and the command line.
        out: the run folder.
        command: what the user typed.
        train: `transop.training.train`, or a function with its arguments.
    """
    from transop.artifacts import RunFolder
    from transop.sharing import is_first_process

    folder = RunFolder(out)
    if command.resume:
        check_resumable(folder, force=command.force)
    stored = stored_settings(folder, type(settings))
    if command.resume and stored is not None:
        settings = settings_to_resume(stored, settings, command.overrides, folder.path)
    else:
        if is_first_process():
            claim_folder(folder, force=command.force)
            if command.resume:
                terminal.notice(f"'{folder.path}' holds no run yet: starting one")
        stored = None
    if command.data is not None and stored is None:
        raise UserError("--data goes with --resume; name a new run's images with --set data.source")
    with resumable_training(terminal, folder, command.text):
        train(
            settings,
            folder,
            dataset=command.data,
            resume=stored is not None,
            progress=terminal.progress,
        )
    if is_first_process():
        show_summary(terminal, folder, as_json=command.as_json)


def as_overrides(options: dict[str, Any], prefix: str = "") -> list[str]:
    """Turn the options that were given into ``section.key=value``."""
    return [f"{prefix}{name}={value}" for name, value in options.items() if value is not None]


def resumable_training(
    terminal: Terminal, folder: RunFolder, command: str
) -> AbstractContextManager[None]:
    """Say on Ctrl-C which command continues the run."""
    again = f"transop {command} --out {shlex.quote(str(folder.path))} --resume"
    return terminal.resumable(f"stopped; continue with: {again}")


def show_summary(terminal: Terminal, folder: RunFolder, *, as_json: bool) -> None:
    """Print what each phase did, as a table or as JSON."""
    phases = folder.finished_phases()
    if as_json:
        terminal.result_json({"run": str(folder.path), "phases": phases})
        return
    rows = [[name, *_phase_cells(facts)] for name, facts in phases.items()]
    terminal.result_table(str(folder.path), ["phase", "seconds", "results"], rows)


def _phase_cells(facts: dict[str, Any]) -> Sequence[str]:
    others = {name: value for name, value in facts.items() if name != "seconds"}
    text = ", ".join(f"{name} {_brief(value)}" for name, value in others.items())
    return f"{facts.get('seconds', 0):.0f}", text


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
