"""``transop explore``: see and steer what a run has learned, in the browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from transop.cli.runs import DataOption
from transop.cli.terminal import Terminal


def explore(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    data: DataOption = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets the network in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on.", show_default="a free one"),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
) -> None:
    """Open an interactive page about a run; it needs no internet and shares nothing."""
    terminal: Terminal = ctx.obj

    from transop.explorer import ExploredRun
    from transop.explorer.memory import return_freed_memory
    from transop.explorer.server import is_loopback, serving

    return_freed_memory()
    opened = ExploredRun.open(run, data=data)
    if not is_loopback(host):
        terminal.stderr.print(
            f"warning: --host {host}: everybody who can reach this machine can use the page, "
            "without a password",
            markup=False,
        )
    with serving(opened, host=host, port=port, open_browser=browser) as address:
        terminal.result(address)
        terminal.notice("press Ctrl-C to stop")
        _wait()
    terminal.notice("stopped")


def _wait() -> None:
    """Sleep until Ctrl-C."""
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return
