"""``transop demo``: the whole story on 5,000 digits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop.cli.runs import check_resumable, claim_folder, settings_to_resume, stored_settings
from transop.cli.terminal import Terminal
from transop.cli.train import (
    DeviceOption,
    ForceOption,
    JsonOption,
    SeedOption,
    SetOption,
    as_overrides,
    resumable_training,
    show_summary,
)
from transop.extras import require

if TYPE_CHECKING:
    from transop.artifacts import RunFolder
    from transop.model import ManifoldAutoencoder


def demo(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("runs/demo"),
    changes: SetOption = None,
    seed: SeedOption = None,
    device: DeviceOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out with its own settings.")
    ] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train on 5,000 real digits, draw what was learned and sum it up; takes minutes.

    Called again with the same settings it goes on where it stopped, or only draws and sums up.
    """
    require("demo", "the demo")

    from transop.artifacts import RunFolder
    from transop.config import load_settings
    from transop.report import write_report
    from transop.training import train

    terminal: Terminal = ctx.obj
    options = as_overrides({"seed": seed, "device": device}, "runtime.")
    overrides = [*(changes or ()), *options]
    settings = load_settings("demo", overrides)
    folder = RunFolder(out)
    if resume:
        check_resumable(folder, force=force)
    stored = stored_settings(folder, type(settings))
    if stored is not None and resume:
        settings = settings_to_resume(stored, settings, overrides, out)
    elif stored is None or stored != settings or force:
        claim_folder(folder, force=force)
        stored = None
    command = " ".join(["demo", *(f"--set {shlex.quote(change)}" for change in changes or ())])
    with resumable_training(terminal, folder, command):
        model = train(settings, folder, resume=stored is not None, progress=terminal.progress)
    figures = _draw(terminal, folder)
    show_summary(terminal, folder, as_json=as_json)
    _say_what_next(terminal, model, figures, out)
    terminal.notice(f"all of it on one page: {write_report(out)}")


def _draw(terminal: Terminal, folder: RunFolder) -> list[Path]:
    from transop.cli.showcase import draw_showcase
    from transop.run import Run

    terminal.notice("drawing figures")
    run = Run.open(folder.path, progress=terminal.progress)
    return draw_showcase(run.model, run.dataset, folder.figures)


def _say_what_next(
    terminal: Terminal, model: ManifoldAutoencoder, figures: list[Path], out: Path
) -> None:
    """Name the pictures, own up to what was left out, suggest a next step."""
    from transop.config import PHASES

    if "operators" in model.phases:
        living = int(model.operators.living().sum())
        terminal.notice(f"{living} of {model.operators.n_operators} operators are alive")
    missing = [phase for phase in PHASES if phase not in model.phases]
    if missing:
        terminal.notice(f"phases left out by the settings: {', '.join(missing)}")
    for figure in figures:
        terminal.notice(f"picture: {figure}")
    if "operators" in model.phases:
        folder = shlex.quote(str(out))
        terminal.notice(f"next: transop path {folder} A.png B.png, with two images of digits")
