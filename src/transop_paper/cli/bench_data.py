"""``transop bench pairs``, ``faces`` and ``memory``: what data costs before anything is learned."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop_app.cli import Terminal, options

if TYPE_CHECKING:
    from transop_paper.bench.cost import Cost
    from transop_paper.bench.pairs import PairBenchmark


def bench_pairs(
    ctx: typer.Context,
    images: Annotated[
        str, typer.Option(help="Numbers of images, ascending, separated by commas.")
    ] = "1000,2000,4000,8000",
    image_size: Annotated[int, typer.Option(help="Side of the images, in pixels.")] = 28,
    backbone: Annotated[str, typer.Option(help="auto, efficientnet-lite0 or resnet18.")] = "auto",
    weights: Annotated[
        Path | None, typer.Option(help="A weights file for the backbone, if not its default.")
    ] = None,
    neighbours: Annotated[int, typer.Option(help="Neighbours per image.")] = 5,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps.")] = "cpu",
    as_json: options.Json = False,
) -> None:
    """Time features and neighbours for growing numbers of images, and their memory."""
    from transop.errors import UserError
    from transop_paper.bench.pairs import bench_pairs as measure

    terminal: Terminal = ctx.obj
    try:
        sizes = [int(part) for part in images.split(",")]
    except ValueError:
        raise UserError(f"--images {images} must be whole numbers with commas between") from None
    report = measure(
        sizes,
        image_size=image_size,
        backbone=backbone,
        weights=weights,
        n_neighbours=neighbours,
        device=device,
        progress=terminal.progress,
    )
    if as_json:
        growth = {"features": report.feature_growth, "search": report.search_growth}
        terminal.result_json({**dataclasses.asdict(report), "growth": growth})
    else:
        _print_pairs(terminal, report)


def _print_pairs(terminal: Terminal, report: PairBenchmark) -> None:
    rows = [
        [
            f"{cost.n_images:,}",
            f"{cost.features.seconds:.1f}",
            f"{cost.images_per_second:,.0f}",
            _megabytes(cost.features),
            f"{cost.search.seconds:.2f}",
            _megabytes(cost.search),
            "" if cost.all_at_once is None else f"{cost.all_at_once.seconds:.2f}",
            f"{cost.table_megabytes:,.0f}",
        ]
        for cost in report.costs
    ]
    columns = ["images", "features, s", "images/s", "MB", "search, s", "MB", "whole table, s", "MB"]
    title = (
        f"{report.image_size} x {report.image_size}, {report.n_features} features, "
        f"{report.n_neighbours} neighbours, {report.n_threads} threads"
    )
    terminal.result_table(title, columns, rows)
    if report.feature_growth is not None and report.search_growth is not None:
        terminal.result(
            f"time grows with the number of images to the power {report.feature_growth:.2f} "
            f"(features) and {report.search_growth:.2f} (search)"
        )


def _megabytes(cost: Cost) -> str:
    return "" if cost.megabytes is None else f"{cost.megabytes:,.0f}"


def bench_faces(
    ctx: typer.Context,
    images: Annotated[int, typer.Option(help="Faces per trial.")] = 2000,
    trials: Annotated[int, typer.Option(help="How often; the fastest counts.")] = 3,
    as_json: options.Json = False,
) -> None:
    """Time the drawing of faces, 64 x 64."""
    from transop_paper.bench.faces import bench_drawing

    terminal: Terminal = ctx.obj
    speed = bench_drawing(images, n_trials=trials, progress=terminal.progress)
    if as_json:
        numbers = dataclasses.asdict(speed)
        terminal.result_json({**numbers, "images_per_second": speed.images_per_second})
        return
    terminal.result(
        f"{speed.images_per_second:,.0f} images/s ({images:,} faces of {speed.image_size} x "
        f"{speed.image_size}, fastest of {trials} trials, {speed.n_threads} threads)"
    )


def bench_memory(
    ctx: typer.Context,
    images: Annotated[int, typer.Option(help="How many images of 64 x 64 x 3.")] = 200_000,
    folder: Annotated[
        Path | None, typer.Option(help="Where the pixels go for the time being.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Build a large set on disk, read it in random order, train a little; report memory."""
    from transop_paper.bench.faces import bench_streaming

    terminal: Terminal = ctx.obj
    found = bench_streaming(images, folder=folder, progress=terminal.progress)
    if as_json:
        terminal.result_json(dataclasses.asdict(found))
        return
    terminal.result(
        f"{images:,} images, {found.disk_megabytes:,.0f} MB on disk, written in "
        f"{found.build_seconds:.0f} s, read in random order in {found.read_seconds:.0f} s"
    )
    if found.peak_megabytes is not None and found.private_megabytes is not None:
        terminal.result(
            f"highest memory {found.peak_megabytes:,.0f} MB; {found.private_megabytes:,.0f} MB "
            "are not pages of the file, which the system takes back when others need them"
        )
