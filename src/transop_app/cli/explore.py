"""``transop explore``: see and try out what a run has learned, in the browser."""

import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from transop.errors import UserError
from transop.extras import require
from transop_app.cli import options
from transop_app.cli.terminal import Terminal


def explore(
    ctx: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(metavar="RUN", help="A run folder.", callback=options.find_run),
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Show a shipped model in place of a run: mnist or fashion-mnist.",
        ),
    ] = None,
    data: options.Data = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets the network in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on.", show_default="a free one"),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Further host name of the page, behind a proxy, say."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
) -> None:
    """Open an interactive page about a run; it needs no internet and shares nothing."""
    terminal: Terminal = ctx.obj

    require("explore", "the explorer")
    from transop_app.explorer import ExploredRun
    from transop_app.explorer.server import is_loopback, serving

    opened = ExploredRun.open(_chosen(run, example), data=data)
    if not is_loopback(host):
        terminal.stderr.print(
            f"warning: --host {host}: everybody who can reach this machine can use the page, "
            "without a password",
            markup=False,
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop as tidily as after Ctrl-C
    names = allow_host or []
    with serving(opened, host=host, port=port, open_browser=browser, allow_hosts=names) as address:
        terminal.result(address)
        terminal.notice("press Ctrl-C to stop")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
    terminal.notice("stopped")


def _chosen(run: Path | None, example: str | None) -> Path:
    """Give the folder of the run or of the example, one of which must be named."""
    if run is not None and example is None:
        return run
    if example is None or run is not None:
        raise UserError("explore needs either a run folder or --example NAME")
    from transop_app.examples import example_folder

    return example_folder(example)
