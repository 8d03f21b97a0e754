"""``transop bench augment``: images per second, learned and fixed augmentations in one run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from transop.cli import Terminal, options


def bench_augment(
    ctx: typer.Context,
    run: Annotated[
        list[Path] | None,
        typer.Option(help="Time the model of this run; repeatable.", show_default="untrained ones"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Images per call.")] = 256,
    trials: Annotated[int, typer.Option(help="Calls that are timed.")] = 5,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps.")] = "cpu",
    as_json: options.Json = False,
) -> None:
    """Time learned moves against kornia's RandAugment and elastic transform."""
    import torch

    from transop.model import ManifoldAutoencoder
    from transop_paper.bench.augment import bench_augment as measure

    terminal: Terminal = ctx.obj
    speeds = measure(
        batch_size=batch_size,
        n_trials=trials,
        models=[ManifoldAutoencoder.from_pretrained(folder) for folder in run or ()],
        device=device,
        progress=terminal.progress,
    )
    if as_json:
        numbers = [dataclasses.asdict(speed) for speed in speeds]
        terminal.result_json({"threads": torch.get_num_threads(), "speeds": numbers})
        return
    rows = [
        [
            f"{speed.image_size} x {speed.image_size} x {speed.channels}",
            speed.name,
            f"{speed.images_per_second:,.0f}",
            f"{1000 * min(speed.seconds):.1f}",
            f"{1000 * max(speed.seconds):.1f}",
        ]
        for speed in speeds
    ]
    columns = ["images", "augmentation", "images/s", "fastest ms", "slowest ms"]
    title = f"batch {batch_size}, {trials} trials, {torch.get_num_threads()} threads"
    terminal.result_table(title, columns, rows)
