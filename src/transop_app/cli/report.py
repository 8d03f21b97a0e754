"""``transop report``: one HTML page about a run."""

from pathlib import Path
from typing import Annotated

import typer

from transop_app.cli import options
from transop_app.cli.terminal import Terminal


def report(
    ctx: typer.Context,
    run: options.Run,
    out: Annotated[Path | None, typer.Option(help="The file; RUN/report.html if left out.")] = None,
) -> None:
    """Write one self-contained HTML page about a run, with the figures that are in it."""
    from transop_app.report import write_report

    terminal: Terminal = ctx.obj
    terminal.result(str(write_report(run, out)))
