"""``transop faces``: write drawn faces to disk."""

from pathlib import Path
from typing import Annotated

import typer

from transop_app.cli import Terminal, options, show_dataset


def faces(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    number: Annotated[int, typer.Option("-n", "--number", help="How many faces.")] = 5000,
    image_size: Annotated[int, typer.Option(help="Height and width in pixels.")] = 64,
    seed: Annotated[int, typer.Option(help="Decides which faces are drawn.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Draw faces with known factors and write them in the layout of CelebA."""
    from transop.data import load_dataset
    from transop_paper.faces import write_faces

    terminal: Terminal = ctx.obj
    write_faces(folder, number, seed=seed, size=image_size, progress=terminal.progress)
    terminal.notice(f"wrote {number:,} faces to {folder}")
    dataset = load_dataset("celeba", path=folder, image_size=image_size, progress=terminal.progress)
    show_dataset(terminal, dataset, as_json=as_json)
