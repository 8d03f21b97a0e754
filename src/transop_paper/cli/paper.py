"""``transop paper``: regenerate a figure of the paper, or all of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop.extras import require
from transop_app.cli import Terminal, options
from transop_paper.cli.reproduce import (
    GiveOption,
    ListOption,
    OnlyOption,
    QuickOption,
    reproduce,
    write_numbers,
)
from transop_paper.cli.table1 import (
    ChangesOption,
    DatasetOption,
    ForceOption,
    ProcessesOption,
    RowsOption,
    SeedsOption,
    make_table,
    train_quick,
)

if TYPE_CHECKING:
    from transop_paper.figures.paper_run import PaperRun


def paper(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A figure, all, reproduce or numbers; none lists the figures."
        ),
    ] = "",
    run: Annotated[
        Path | None, typer.Option(help="A trained run; without one a quick run is used.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="quick or full; full if --run is given.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the files; RUN/figures if left out.")
    ] = None,
    companion: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RUN", help="Compare with this run instead of training one; repeatable."
        ),
    ] = None,
    data: options.Data = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Draw again from numbers that are there.")
    ] = False,
    rows: RowsOption = "",
    seeds: SeedsOption = None,
    dataset: DatasetOption = None,
    changes: ChangesOption = None,
    processes: ProcessesOption = 1,
    force: ForceOption = False,
    quick: QuickOption = False,
    only: OnlyOption = None,
    list_steps: ListOption = False,
    give: GiveOption = None,
    as_json: options.Json = False,
) -> None:
    """Compute a figure of the paper, write its numbers, draw it.

    Baselines it compares with are trained beside the run, in RUN/companions, unless they are
    there already.
    """
    require("paper", "transop paper")

    from transop.errors import UserError
    from transop_paper.figures import FIGURES

    terminal: Terminal = ctx.obj
    if not name:
        _list_figures(terminal, as_json)
        return
    if name in _OTHERS:
        _OTHERS[name](ctx)
        return
    if name != "all" and name not in FIGURES:
        raise UserError(
            f"figure '{name}' does not exist; choose all or one of {', '.join(FIGURES)}"
        )
    if scale not in (None, "quick", "full"):
        raise UserError(f"--scale {scale} is unknown; use quick or full")
    chosen = list(FIGURES) if name == "all" else [name]
    target = out or (run or Path("runs/quick")) / "figures"
    again = f"transop paper {name}" + (f" --run {run}" if run else "")
    with terminal.resumable(f"stopped; go on with: {again}"):
        written = _redraw(chosen, target) if redraw else _make(terminal, chosen, _open(ctx), target)
    if as_json:
        terminal.result_json({key: [str(path) for path in paths] for key, paths in written.items()})
    else:
        for paths in written.values():
            terminal.result(str(next(path for path in paths if path.suffix == ".png")))


# What has no figure of its own kind.
_OTHERS = {"table1": make_table, "reproduce": reproduce, "numbers": write_numbers}


def _list_figures(terminal: Terminal, as_json: bool) -> None:
    from transop_paper.figures import FIGURES

    if as_json:
        terminal.result_json({name: figure.about.title for name, figure in FIGURES.items()})
        return
    for name, figure in FIGURES.items():
        terminal.result(f"{name:20} {figure.about.title} ({figure.paper})")


def _open(ctx: typer.Context) -> PaperRun:
    from transop.errors import UserError
    from transop_paper.figures.paper_run import PaperRun

    run, terminal = ctx.params["run"], ctx.obj
    given = {}
    for whole in ctx.params["companion"] or ():
        name, _, path = whole.partition("=")
        if not (name and path):
            raise UserError(f"--companion {whole!r} is not of the form NAME=RUN")
        given[name] = Path(path)
    return PaperRun.open(
        run or train_quick(terminal),
        scale=ctx.params["scale"] or ("full" if run else "quick"),
        companions=given,
        data=ctx.params["data"],
        progress=terminal.progress,
    )


def _make(
    terminal: Terminal, names: list[str], run: PaperRun, target: Path
) -> dict[str, list[Path]]:
    """Make the figures the run allows; one asked for by name must be possible."""
    from transop.errors import UserError
    from transop_paper.figures import FIGURES
    from transop_paper.figures.figure import make_figure, unmet_needs

    written = {}
    for name in terminal.progress(names, "figures", len(names)):
        figure, start = FIGURES[name], time.monotonic()
        try:
            if missing := unmet_needs(figure, run):
                raise UserError(f"{name} needs {missing[0]}")
            written[name] = make_figure(name, figure, run, target)
        except UserError as error:
            if len(names) == 1:
                raise
            terminal.notice(f"left out {name}: {error}")
            continue
        terminal.notice(f"{name}: {time.monotonic() - start:.1f} s")
    return written


def _redraw(names: list[str], target: Path) -> dict[str, list[Path]]:
    """Draw what has numbers; one asked for by name must have them."""
    from transop_paper.figures import FIGURES
    from transop_paper.figures.figure import redraw_figure

    there = [name for name in names if len(names) == 1 or (target / f"{name}.npz").exists()]
    return {name: redraw_figure(name, FIGURES[name], target) for name in there}
