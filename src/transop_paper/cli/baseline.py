"""``transop baseline``: train a method that ours is compared with."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from transop_app.cli import options, overrides, train_in_folder


def baseline(
    ctx: typer.Context,
    method: Annotated[str, typer.Argument(metavar="METHOD", help="ae, cae, beta-vae or dense.")],
    recipe: options.Recipe,
    changes: options.Changes = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; runs/RECIPE-METHOD if left out.", show_default=False),
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
    """Train a baseline of the paper on a recipe's data.

    Figures train the baselines they need beside the run, in RUN/companions, with its settings.
    """
    from transop_paper.baselines.settings import baseline_settings

    settings = baseline_settings(recipe, method, overrides(ctx))
    if show_settings:
        ctx.obj.result(settings.to_toml().rstrip())
        return

    from transop_paper.baselines.training import train_baseline

    out = out or Path("runs") / f"{settings.recipe}-{settings.method}"
    command = f"baseline {shlex.quote(method)} {shlex.quote(recipe)}"
    train_in_folder(ctx, settings, out, command, train_baseline)
