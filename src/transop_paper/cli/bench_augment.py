"""``transop bench augment`` and ``loop``: the speed of augmentations, alone and in training."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from transop_app.cli import Terminal, options

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
    from transop import Run
    from transop_paper.bench.augment import bench_augment as measure

    terminal: Terminal = ctx.obj
    report = measure(
        batch_size=batch_size,
        n_trials=trials,
        runs=[Run.open(folder) for folder in run or ()],
        device=device,
        progress=terminal.progress,
    )
    if as_json:
        terminal.result_json(dataclasses.asdict(report))
        return
    terminal.result(
        f"batch {batch_size}, {trials} trials, {report.n_threads} threads, "
        f"{report.peak_gflops:.0f} GFlop/s peak"
    )
    for size, channels in dict.fromkeys((s.image_size, s.channels) for s in report.speeds):
        terminal.result_table(
            f"{size} x {size} x {channels}",
            ["augmentation", "images/s", "/ elastic", "of peak", "ms"],
            [
                [
                    speed.name,
                    f"{speed.images_per_second:,.0f}",
                    f"{speed.over_elastic:.2f}",
                    "" if speed.peak_share is None else f"{speed.peak_share:.0%}",
                    f"{1000 * median(speed.seconds):.1f}",
                ]
                for speed in report.speeds
                if (speed.image_size, speed.channels) == (size, channels)
            ],
        )


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
    from transop.model import ManifoldAutoencoder
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
    models = [ManifoldAutoencoder.from_pretrained(folder) for folder in run or ()]
    speeds = measure(size, models=models, progress=terminal.progress)
    if as_json:
        terminal.result_json(
            {
                "threads": torch.get_num_threads(),
                "size": dataclasses.asdict(size),
                "speeds": [dataclasses.asdict(speed) for speed in speeds],
            }
        )
        return
    terminal.result(
        f"batch {size.batch_size}, {size.n_steps} steps, {size.rounds} rounds, "
        f"{torch.get_num_threads()} threads"
    )
    for network, workers in dict.fromkeys((s.network, s.workers) for s in speeds):
        place = f"{workers} workers" if workers else "the main process"
        terminal.result_table(
            f"{network}, augmented in {place}",
            ["augmentation", "images/s", "waiting", "time / elastic"],
            [
                [
                    speed.augmentation,
                    f"{speed.images_per_second:,.0f}",
                    f"{speed.waiting:.0%}",
                    f"{speed.over_elastic:.2f}",
                ]
                for speed in speeds
                if (speed.network, speed.workers) == (network, workers)
            ],
        )
