"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting; repeatable."),
]
Seed = Annotated[int | None, typer.Option(help="Seed of all randomness.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Devices = Annotated[int | None, typer.Option(help="Train on so many devices at once.")]
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
