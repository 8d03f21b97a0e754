"""``transop paper table1``: ten labels per class, by augmentation and by semi-supervised method."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop.errors import UserError
from transop_app.cli import Terminal

if TYPE_CHECKING:
    from transop_paper.scarce.protocol import Protocol
    from transop_paper.scarce.results import Difference, Summary
    from transop_paper.scarce.rows import Row

_PANEL = "For table1"
_SEEDS = {"full": 10, "quick": 2}

RowsOption = Annotated[
    str,
    typer.Option(
        metavar="ROW,ROW,... | list",
        help="Which rows, or augmentations, rivals, ablations; list names all; "
        "ROW@key=value+key=value changes one.",
        rich_help_panel=_PANEL,
        show_default="all that are possible",
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(min=1, help="How many seeds.", rich_help_panel=_PANEL, show_default="10, quick 2"),
]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        help="A data set; without --run, fixed augmentations only.",
        rich_help_panel=_PANEL,
        show_default="the run's",
    ),
]
ChangesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the protocol, e.g. n_steps=5000; repeatable.",
        rich_help_panel=_PANEL,
    ),
]
ProcessesOption = Annotated[
    int, typer.Option(min=1, help="Rows and seeds at once.", rich_help_panel=_PANEL)
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Compute again what is there.", rich_help_panel=_PANEL)
]


def make_table(ctx: typer.Context) -> None:
    """Train a small network on ten images per class with each augmentation in turn.

    Every row and seed is kept as a file: rows may be run alone, together or later.
    """
    terminal: Terminal = ctx.obj
    run, scale, rows, dataset = (ctx.params[name] for name in ("run", "scale", "rows", "dataset"))
    as_json: bool = ctx.params["as_json"]
    if rows == "list":
        _list_rows(terminal, dataset or "mnist", as_json=as_json)
        return

    from transop_paper.scarce.experiment import open_experiment, run_table
    from transop_paper.scarce.rows import find_rows

    quick = run is None and dataset is None
    scale = scale or ("quick" if quick else "full")
    protocol = make_protocol(scale, ctx.params["changes"] or ())
    names = [name.replace("+", ",") for name in rows.split(",")] if rows else []
    find_rows(names, dataset or "mnist")  # a mistake is told before anything is trained
    run = train_quick(terminal) if quick else run
    target = ctx.params["out"] or (run or Path("runs")) / "table1"
    experiment = open_experiment(
        target, protocol, run=run, dataset=dataset, progress=terminal.progress
    )
    chosen = find_rows(names, experiment.dataset.meta.name)
    if run is None and not names:
        chosen = [row for row in chosen if not row.needs_model]
        terminal.notice("without --run only rows that need no learned model are possible")
    with terminal.resumable("stopped; the same command goes on where it stopped"):
        results = run_table(
            experiment,
            chosen,
            ctx.params["seeds"] or _SEEDS[scale],
            n_processes=ctx.params["processes"],
            force=ctx.params["force"],
        )
    _report(ctx, chosen, results, target)


def _report(
    ctx: typer.Context, rows: Sequence[Row], results: Sequence[dict[str, Any]], target: Path
) -> None:
    """Write the table and the differences from our entry, and show both."""
    from transop_app.report.saved import save_figure
    from transop_paper.scarce.results import (
        compare_rows,
        draw_table,
        summarise,
        write_differences,
        write_table,
    )
    from transop_paper.scarce.rows import ENTRY

    terminal: Terminal = ctx.obj
    summaries = summarise(rows, results)
    differences = compare_rows(results, ENTRY) if any(row.name == ENTRY for row in rows) else []
    files = write_table(target, summaries)
    files += write_differences(target, differences) if differences else []
    n = max(summary.n_seeds for summary in summaries)
    picture = draw_table(summaries, title=f"LeNet-5 on ten labelled images per class, {n} seeds")
    files += save_figure(picture, target / "table1")
    if ctx.params["as_json"]:
        terminal.result_json([dataclasses.asdict(summary) for summary in summaries])
        return
    _show(terminal, summaries)
    _show_differences(terminal, differences)
    terminal.notice(f"written: {', '.join(str(file) for file in files)}")


def train_quick(terminal: Terminal) -> Path:
    """Train the quick run, or finish the one that is there."""
    from transop_paper.figures.quick import train_quick_run

    folder = Path("runs/quick")
    terminal.notice(f"quick run in {folder}")
    train_quick_run(folder, progress=terminal.progress)
    return folder


def make_protocol(scale: str, changes: Sequence[str]) -> Protocol:
    """Take a protocol by name and apply ``key=value`` changes."""
    from transop_paper.scarce.protocol import SCALES, Protocol
    from transop_paper.scarce.rows import read_changes

    if scale not in SCALES:
        raise UserError(f"--scale {scale} is unknown; choose from {', '.join(SCALES)}")
    keys = [field.name for field in dataclasses.fields(Protocol)]
    values = read_changes(changes, (Protocol,), keys, "--set")
    return dataclasses.replace(SCALES[scale], **values)


def _list_rows(terminal: Terminal, dataset: str, *, as_json: bool) -> None:
    from transop_paper.scarce.rows import known_rows

    rows = known_rows(dataset)
    if as_json:
        terminal.result_json({name: row.title for name, row in rows.items()})
        return
    cells = [[name, row.title, row.labels_used()] for name, row in rows.items()]
    terminal.result_table(None, ["row", "augmentation", "labels used"], cells)


def _show(terminal: Terminal, summaries: list[Summary]) -> None:
    cells = []
    for summary in summaries:
        used = "100 + unlabelled" if "without labels" in summary.labels_used else "100"
        cells.append(
            [
                summary.row,
                f"{summary.mean:.2f}",
                f"{summary.deviation:.2f}",
                "-" if summary.paper is None else f"{summary.paper[0]:.2f}",
                str(summary.n_seeds),
                "all" if summary.labels_used.startswith("all") else used,
            ]
        )
    columns = ["augmentation", "test %", "sd", "paper", "seeds", "labels"]
    terminal.result_table(None, columns, cells)


def _show_differences(terminal: Terminal, differences: list[Difference]) -> None:
    if not differences:
        return
    cells = [
        [one.row, f"{one.mean:+.2f}", f"{one.standard_error:.2f}", str(one.n_seeds)]
        for one in differences
    ]
    columns = [f"{differences[0].reference} minus", "test %", "standard error", "seeds"]
    terminal.result_table(None, columns, cells)
