"""``transop train``: run the phases of a recipe."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop.errors import UserError
from transop_app.cli import options
from transop_app.cli.runs import check_resumable, claim_folder, settings_to_resume, stored_settings
from transop_app.cli.terminal import Terminal

if TYPE_CHECKING:
    from transop.artifacts import RunFolder
    from transop.config import Settings


def train(
    ctx: typer.Context,
    recipe: options.Recipe,
    changes: options.Changes = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/RECIPE if left out.", show_default=False)
    ] = None,
    seed: options.Seed = None,
    device: options.Device = None,
    devices: options.Devices = None,
    resume: options.Resume = False,
    data: options.Data = None,
    force: options.Force = False,
    show_settings: options.ShowSettings = False,
    as_json: options.Json = False,
) -> None:
    """Train a model: every phase of a recipe that is not done yet."""
    from transop.config import load_settings

    settings = load_settings(recipe, overrides(ctx))
    if show_settings:
        ctx.obj.result(settings.to_toml().rstrip())
        return

    from transop.training import train as train_run

    if settings.autoencoder.factory or settings.classifier.factory:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109  (as `python -m` would)
    out = out or Path("runs") / settings.recipe
    train_in_folder(ctx, settings, out, f"train {shlex.quote(recipe)}", train_run)


def overrides(ctx: typer.Context) -> list[str]:
    """Collect --set, --seed, --device and --devices as ``section.key=value``."""
    runtime = {name: ctx.params.get(name) for name in ("seed", "device", "devices")}
    given = [f"runtime.{name}={value}" for name, value in runtime.items() if value is not None]
    return [*(ctx.params["changes"] or ()), *given]


def train_in_folder(
    ctx: typer.Context,
    settings: Settings,
    out: Path,
    command: str,
    train: Callable[..., object],
    *,
    same_again: bool = False,
) -> None:
    """Train in a new folder, or continue the run that is there, and print a summary.

    Args:
        ctx: of a command with --set, --resume, --force and --json, and perhaps --data.
        settings: of the recipe and the command line.
        out: the run folder.
        command: what the user typed, without ``transop`` and --out, to be called again.
        train: `transop.training.train`, or a function with its arguments.
        same_again: continue a run with the same settings even without --resume.
    """
    from transop.artifacts import RunFolder
    from transop.sharing import is_first_process

    terminal: Terminal = ctx.obj
    folder, resume, force = RunFolder(out), ctx.params["resume"], ctx.params["force"]
    if resume:
        check_resumable(folder, force=force)
    stored = stored_settings(folder, type(settings))
    if resume and stored is not None:
        settings = settings_to_resume(stored, settings, overrides(ctx), out)
    elif not same_again or stored != settings or force:
        if is_first_process():
            claim_folder(folder, force=force)
            if resume:
                terminal.notice(f"'{out}' holds no run yet: starting one")
        stored = None
    data = ctx.params.get("data")
    if data is not None and stored is None:
        raise UserError("--data goes with --resume; name a new run's images with --set data.source")
    dataset = None if data is None else Path(data)
    again = f"transop {command} --out {shlex.quote(str(out))} --resume"
    with terminal.resumable(f"stopped; continue with: {again}"):
        train(
            settings,
            folder,
            dataset=dataset,
            resume=stored is not None,
            progress=terminal.progress,
        )
    if is_first_process():
        show_summary(terminal, folder, as_json=ctx.params["as_json"])


def show_summary(terminal: Terminal, folder: RunFolder, *, as_json: bool) -> None:
    """Print what each phase did, as a table or as JSON."""
    phases = folder.finished_phases()
    if as_json:
        terminal.result_json({"run": str(folder.path), "phases": phases})
        return
    rows = []
    for name, facts in phases.items():
        others = [f"{key} {_brief(value)}" for key, value in facts.items() if key != "seconds"]
        rows.append([name, f"{facts.get('seconds', 0):.0f}", ", ".join(others)])
    terminal.result_table(str(folder.path), ["phase", "seconds", "results"], rows)


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
