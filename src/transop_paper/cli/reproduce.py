"""``transop paper reproduce`` and ``transop paper numbers``: every number, and the docs from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop.errors import UserError
from transop_app.cli import Terminal

if TYPE_CHECKING:
    from transop_paper.reproduce import Reproduction

_PANEL = "For reproduce"

QuickOption = Annotated[
    bool,
    typer.Option("--quick", help="A small check of every step.", rich_help_panel=_PANEL),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STEP",
        help="Only this step and those it needs; repeatable.",
        rich_help_panel=_PANEL,
    ),
]
ListOption = Annotated[
    bool, typer.Option("--list", help="List the steps; run nothing.", rich_help_panel=_PANEL)
]
GiveOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="Data for some steps: celeba=FOLDER, fruits=FILE.npz, yale=FILE.npz.",
        rich_help_panel=_PANEL,
    ),
]


def reproduce(ctx: typer.Context) -> None:
    """Run all steps from the root of a clone; a second call goes on where the first stopped."""
    from transop_paper.reproduce import Reproduction

    terminal: Terminal = ctx.obj
    quick = ctx.params["quick"] or ctx.params["scale"] == "quick"
    root = clone()
    out = ctx.params["out"] or (Path("build/reproduce") if quick else None)
    everything = Reproduction(
        root=root,
        measurements=root / (out or "docs/measurements"),
        work=root / (out / "work" if out else "runs/reproduce"),
        given=_given(ctx.params["give"] or ()),
        is_quick=quick,
        say=terminal.notice,
    )
    only = ctx.params["only"] or ()
    if ctx.params["list_steps"]:
        _show(terminal, everything, as_json=ctx.params["as_json"])
        return
    with terminal.resumable("stopped; the same command goes on where it stopped"):
        everything.run(only, force=ctx.params["force"])
    terminal.result(str(everything.measurements / "reproduce.json"))


def write_numbers(ctx: typer.Context) -> None:
    """Write the marked tables of README.md and docs from the measurements."""
    from transop_paper.numbers import refresh_pages

    terminal: Terminal = ctx.obj
    root = clone()
    for page in refresh_pages(root):
        terminal.result(str(page.relative_to(root)))


def clone() -> Path:
    """Give the folder we are in, which must be a clone of the repository."""
    here = Path.cwd()
    for part in ("benchmarks", "docs/measurements", "README.md"):
        if not (here / part).exists():
            raise UserError(f"there is no '{part}' here; run this in a clone of the repository")
    return here


def _given(words: list[str] | tuple[str, ...]) -> dict[str, str]:
    from transop_paper.steps import GIVEN

    given = {}
    for whole in words:
        name, _, path = whole.partition("=")
        if name not in GIVEN or not Path(path).exists():
            raise UserError(
                f"--give {whole!r} is not of the form celeba=FOLDER, fruits=FILE or yale=FILE, "
                "or there is no such file"
            )
        given[name] = str(Path(path).absolute())
    return given


def _show(terminal: Terminal, everything: Reproduction, *, as_json: bool) -> None:
    from transop_paper.steps import STEPS

    rows = []
    for step in STEPS:
        state = "done" if everything.is_done(step) else "to do"
        rows.append([step.name, state if everything.possible(step) else "left out", step.about])
    if as_json:
        terminal.result_json([dict(zip(("step", "state", "about"), r, strict=True)) for r in rows])
    else:
        terminal.result_table(None, ["step", "state", "measures"], rows)
