"""``transop bench augment`` and ``loop``: the speed of augmentations, alone and in training."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop_app.cli import Terminal, options

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder

Runs = Annotated[
    list[Path] | None,
    typer.Option("--run", help="Use the model of this run; repeatable.", show_default="untrained"),
]


def bench_augment(
    ctx: typer.Context,
    run: Runs = None,
    batch_size: Annotated[int, typer.Option(help="Images per call.")] = 256,
    trials: Annotated[int, typer.Option(help="Calls that are timed.")] = 15,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps.")] = "cpu",
    as_json: options.Json = False,
) -> None:
    """Time learned moves against kornia's RandAugment and elastic transform."""
    from transop_paper.bench.augment import bench_augment as measure

    terminal: Terminal = ctx.obj
    report = measure(
        batch_size=batch_size,
        n_trials=trials,
        models=_models(run),
        device=device,
        progress=terminal.progress,
    )
    if as_json:
        terminal.result_json(dataclasses.asdict(report))
        return
    rows = [
        [
            f"{speed.image_size} x {speed.image_size} x {speed.channels}",
            speed.name,
            f"{speed.images_per_second:,.0f}",
            f"{speed.over_elastic:.2f}",
            "" if speed.peak_share is None else f"{speed.peak_share:.0%}",
            f"{1000 * min(speed.seconds):.1f}",
            f"{1000 * max(speed.seconds):.1f}",
        ]
        for speed in report.speeds
    ]
    columns = ["images", "augmentation", "images/s", "/ elastic", "of peak", "best ms", "worst ms"]
    title = (
        f"batch {batch_size}, {trials} trials, {report.n_threads} threads, "
        f"{report.peak_gflops:.0f} GFlop/s peak"
    )
    terminal.result_table(title, columns, rows)


def bench_loop(
    ctx: typer.Context,
    run: Runs = None,
    scale: Annotated[
        str, typer.Option(help="full: as documented; quick: a small check in seconds.")
    ] = "full",
    batch_size: Annotated[int | None, typer.Option(help="Images per step.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps that are timed.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Turns of every loop.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of the DataLoader.")] = None,
    as_json: options.Json = False,
) -> None:
    """Time a training loop with no, fixed and learned augmentation, with and without workers."""
    import torch

    from transop.errors import UserError
    from transop_paper.bench.loop import QUICK, LoopSize
    from transop_paper.bench.loop import bench_loop as measure

    terminal: Terminal = ctx.obj
    scales = {"full": LoopSize(), "quick": QUICK}
    if scale not in scales:
        raise UserError(f"--scale {scale} is unknown; choose from {', '.join(scales)}")
    given = {
        "batch_size": batch_size,
        "n_steps": steps,
        "rounds": rounds,
        "n_workers": workers,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    size = dataclasses.replace(scales[scale], **chosen)
    speeds = measure(size, models=_models(run), progress=terminal.progress)
    if as_json:
        terminal.result_json(
            {
                "threads": torch.get_num_threads(),
                "size": dataclasses.asdict(size),
                "speeds": [dataclasses.asdict(speed) for speed in speeds],
            }
        )
        return
    terminal.result_table(
        f"batch {size.batch_size}, {size.n_steps} steps, {torch.get_num_threads()} threads",
        ["network", "augmented in", "augmentation", "images/s", "waiting", "time / elastic"],
        [
            [
                f"{speed.network}, {speed.image_size} px",
                f"{speed.workers} workers" if speed.workers else "main process",
                speed.augmentation,
                f"{speed.images_per_second:,.0f}",
                f"{speed.waiting:.0%}",
                f"{speed.over_elastic:.2f}",
            ]
            for speed in speeds
        ],
    )


def _models(runs: list[Path] | None) -> list[ManifoldAutoencoder]:
    from transop.model import ManifoldAutoencoder

    return [ManifoldAutoencoder.from_pretrained(folder) for folder in runs or ()]
