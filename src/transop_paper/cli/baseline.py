"""``transop baseline``: train a method that ours is compared with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from transop.cli import (
    DataOption,
    DeviceOption,
    DevicesOption,
    ForceOption,
    JsonOption,
    RecipeArgument,
    ResumeOption,
    SeedOption,
    SetOption,
    ShowSettingsOption,
    Terminal,
    TrainingCommand,
    as_overrides,
    train_in_folder,
)


def baseline(
    ctx: typer.Context,
    method: Annotated[str, typer.Argument(metavar="METHOD", help="ae, cae, beta-vae or dense.")],
    recipe: RecipeArgument,
    changes: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; runs/RECIPE-METHOD if left out.", show_default=False),
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
    """Train a baseline of the paper on a recipe's data.

    Figures train the baselines they need beside the run, in RUN/companions, with its settings.
    """
    from transop_paper.baselines.settings import baseline_settings

    terminal: Terminal = ctx.obj
    options = {"seed": seed, "device": device, "devices": devices}
    overrides = [*(changes or ()), *as_overrides(options, "runtime.")]
    settings = baseline_settings(recipe, method, overrides)
    if show_settings:
        terminal.result(settings.to_toml().rstrip())
        return

    from transop_paper.baselines.training import train_baseline

    text = f"baseline {shlex.quote(method)} {shlex.quote(recipe)}"
    command = TrainingCommand(text, overrides, resume, data, force, as_json)
    folder = out or Path("runs") / f"{settings.recipe}-{settings.method}"
    train_in_folder(terminal, settings, folder, command, train_baseline)
