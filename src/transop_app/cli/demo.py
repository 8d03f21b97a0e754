"""``transop demo``: the whole story on 5,000 digits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop.extras import require
from transop_app.cli import options
from transop_app.cli.terminal import Terminal
from transop_app.cli.train import overrides, train_in_folder

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder


def demo(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("runs/demo"),
    changes: options.Changes = None,
    seed: options.Seed = None,
    device: options.Device = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out with its own settings.")
    ] = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Train on 5,000 real digits, draw what was learned and sum it up; takes minutes.

    Called again with the same settings it goes on where it stopped, or only draws and sums up.
    """
    require("demo", "the demo")

    from transop.config import load_settings
    from transop.run import Run
    from transop.training import train
    from transop_app.cli.showcase import draw_showcase
    from transop_app.report import write_report

    terminal: Terminal = ctx.obj
    settings = load_settings("demo", overrides(ctx))
    command = " ".join(["demo", *(f"--set {shlex.quote(change)}" for change in changes or ())])
    train_in_folder(ctx, settings, out, command, train, same_again=True)
    terminal.notice("drawing figures")
    run = Run.open(out, progress=terminal.progress)
    figures = draw_showcase(run.model, run.dataset, run.folder.figures)
    _say_what_next(terminal, run.model, figures, out)
    terminal.notice(f"all of it on one page: {write_report(out)}")


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
