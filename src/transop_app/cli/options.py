"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = "example:"


def find_run(run: Path | None) -> Path | None:
    """Give a run's folder; ``example:NAME`` is a shipped one, copied to the user's cache."""
    if run is None or not str(run).startswith(_EXAMPLE):
        return run
    from transop_app.examples import example_folder

    return example_folder(str(run).removeprefix(_EXAMPLE))


Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run folder, or example:NAME.", callback=find_run),
]
Recipe = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A shipped recipe, such as mnist-cpu (an unknown name lists all), or a TOML file.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Change a setting; repeatable (train RECIPE --show-settings lists all).",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of all randomness.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Devices = Annotated[int | None, typer.Option(help="Number of devices to train on at once.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="The run's images again, if they have moved or came from an array."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Start anew; an earlier run is kept under another name.")
]
ShowSettings = Annotated[
    bool, typer.Option("--show-settings", help="Print the settings as TOML; train nothing.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
