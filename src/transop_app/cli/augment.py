"""``transop augment``: write augmented copies of a folder of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop.errors import UserError
from transop.extras import require
from transop_app.cli import options
from transop_app.cli.terminal import Terminal

if TYPE_CHECKING:
    from transop_app.augment_folder import FolderReport

_LISTED = 5


def augment(
    ctx: typer.Context,
    run: options.Run,
    source: Annotated[Path, typer.Argument(metavar="IN", help="A folder of images.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")],
    n_copies: Annotated[int, typer.Option("-n", help="Copies of each image.")] = 1,
    p: Annotated[float, typer.Option("--p", help="Probability that a copy is moved.")] = 1.0,
    scales: Annotated[
        str,
        typer.Option(
            help="How far moves go: encoder (what each image allows), prior (one range for all) or "
            "auto (encoder if the run has one)."
        ),
    ] = "auto",
    multiplier: Annotated[
        float, typer.Option(help="Make moves longer or shorter by this factor.")
    ] = 1.0,
    steps: Annotated[int, typer.Option(help="Random steps one after another in each move.")] = 1,
    guard: Annotated[
        float | None,
        typer.Option(
            metavar="PROBABILITY",
            help="Draw a copy again if the run's classifier is less sure of its class than this.",
            show_default="no guard",
        ),
    ] = None,
    residual: Annotated[
        float, typer.Option(help="Share of the detail lost by the autoencoder to add back.")
    ] = 0.0,
    contact_sheet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw the first images and their copies."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Write into OUT even if it has files.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write augmented copies of a folder of images, class folders and names kept."""
    terminal: Terminal = ctx.obj
    _check_sheet(contact_sheet, force=force)

    import torch

    from transop.augment import TransportAugment
    from transop.inputs import check_seed
    from transop.run import Run
    from transop_app.augment_folder import augment_folder

    generator = torch.Generator().manual_seed(check_seed("--seed", seed))
    model = Run.open(run).require_phase("operators")
    source_of_scales: Any = scales  # checked by the transform
    moves = TransportAugment(
        model,
        p,
        source=source_of_scales,
        multiplier=multiplier,
        n_steps=steps,
        guard=guard,
        residual=residual,
        generator=generator,
    )
    report = augment_folder(
        moves, source, target, n_copies=n_copies, overwrite=force, progress=terminal.progress
    )
    if contact_sheet is not None:
        import numpy as np

        from transop.plotting import contact_sheet as lay_out
        from transop_app.report.saved import write_figure

        write_figure(lay_out(np.stack([images[:13] for images in report.shown])), contact_sheet)
    _tell(ctx, report, model.image_shape[-1])


def _check_sheet(file: Path | None, *, force: bool) -> None:
    if file is None:
        return
    if file.suffix.lower() not in (".png", ".svg"):
        raise UserError(f"--contact-sheet '{file}' must end in .png or .svg")
    require("report", "drawing the contact sheet")
    if file.exists() and not force:
        raise UserError(f"--contact-sheet '{file}' exists; choose another, or give --force")


def _tell(ctx: typer.Context, report: FolderReport, size: int) -> None:
    terminal: Terminal = ctx.obj
    target, sheet = ctx.params["target"], ctx.params["contact_sheet"]
    for file, reason in list(report.unreadable.items())[:_LISTED]:
        terminal.notice(f"left out '{file}': {reason}")
    if len(report.unreadable) > _LISTED:
        terminal.notice(f"left out {len(report.unreadable) - _LISTED} more unreadable files")
    if ctx.params["as_json"]:
        facts = {
            "folder": str(target),
            "images": report.n_images,
            "written": report.n_written,
            "unreadable": report.unreadable,
            "contact_sheet": None if sheet is None else str(sheet),
        }
        terminal.result_json(facts)
        return
    terminal.notice(
        f"{report.n_written:,} copies of {report.n_images:,} images, {size} x {size} pixels"
    )
    terminal.result(str(target))
