"""``transop train``: run the phases of a recipe."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop.cli.runs import check_resumable, claim_folder, settings_to_resume, stored_settings
from transop.cli.terminal import Terminal

if TYPE_CHECKING:
    from transop.artifacts import RunFolder
    from transop.config import Settings
    from transop.model import ManifoldAutoencoder
    from transop_paper.baselines import Baseline

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting; repeatable."),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of all randomness.")]
DeviceOption = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Start anew; an earlier run is kept under another name.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def train(
    ctx: typer.Context,
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")
    ],
    changes: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/RECIPE if left out.", show_default=False)
    ] = None,
    seed: SeedOption = None,
    device: DeviceOption = None,
    devices: Annotated[int | None, typer.Option(help="Train on so many devices at once.")] = None,
    method: Annotated[
        str | None, typer.Option(help="mae (operators), or a baseline: ae, cae, beta-vae, dense.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    force: ForceOption = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the settings as TOML; train nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model: every phase of a recipe that is not done yet."""
    from transop.artifacts import RunFolder
    from transop.config import load_settings
    from transop.sharing import is_first_process

    terminal: Terminal = ctx.obj
    options = {"seed": seed, "device": device, "devices": devices}
    overrides = [*(changes or ()), *as_overrides(options, "runtime.")]
    overrides += as_overrides({"method": method})
    settings = load_settings(recipe, overrides)
    if show_settings:
        terminal.result(settings.to_toml().rstrip())
        return
    folder = RunFolder(out or Path("runs") / settings.recipe)
    if resume:
        check_resumable(folder, force=force)
    stored = stored_settings(folder)
    if resume and stored is not None:
        settings = settings_to_resume(stored, settings, overrides, folder.path)
    else:
        if is_first_process():
            claim_folder(folder, force=force)
            if resume:
                terminal.notice(f"'{folder.path}' holds no run yet: starting one")
        stored = None
    run_phases(
        terminal, settings, folder, f"train {shlex.quote(recipe)}", resume=stored is not None
    )
    if is_first_process():
        show_summary(terminal, folder, as_json=as_json)


def as_overrides(options: dict[str, Any], prefix: str = "") -> list[str]:
    """Turn the options that were given into ``section.key=value``."""
    return [f"{prefix}{name}={value}" for name, value in options.items() if value is not None]


def run_phases(
    terminal: Terminal, settings: Settings, folder: RunFolder, command: str, *, resume: bool
) -> ManifoldAutoencoder | Baseline:
    """Train with bars, and on Ctrl-C say how to continue."""
    from transop.training import train as train_run

    again = f"transop {command} --out {shlex.quote(str(folder.path))} --resume"
    with terminal.resumable(f"stopped; continue with: {again}"):
        return train_run(settings, folder, resume=resume, progress=terminal.progress)


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
