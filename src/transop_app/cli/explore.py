"""``transop explore``: see and try out what a run has learned, in the browser."""

import signal
import time
from contextlib import suppress
from typing import Annotated

import typer

from transop.extras import require
from transop_app.cli import options
from transop_app.cli.terminal import Terminal


def explore(
    ctx: typer.Context,
    run: options.Run,
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

    opened = ExploredRun.open(run, data=data)
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
