"""``transop bench``: measurements, with every contender in the same run.

Each command prints its numbers as JSON, or as the tables that the docs have of them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from transop.extras import require
from transop_app.cli import Terminal, options

app = typer.Typer(help="Measure speed, with every contender in the same run.")

Runs = Annotated[
    list[Path] | None,
    typer.Option("--run", help="Use the model of this run; repeatable.", show_default="untrained"),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps.")]


@app.callback()
def _group() -> None:
    """Measure speed, with every contender in the same run."""
    require("paper", "transop bench")


def _show(ctx: typer.Context, report: dict[str, Any], *tables: str) -> None:
    """Print everything as JSON, or the plain numbers in a line and the rest as tables."""
    terminal: Terminal = ctx.obj
    if ctx.params["as_json"]:
        terminal.result_json(report)
        return
    plain = {key: value for key, value in report.items() if isinstance(value, int | float)}
    terminal.result(", ".join(f"{key.removeprefix('n_')} {v:.5g}" for key, v in plain.items()))
    for table in tables:
        terminal.result(f"\n{table}")


def _sides(report: dict[str, Any]) -> list[int]:
    """List the sizes of the images that were measured."""
    return list(dict.fromkeys(speed["image_size"] for speed in report["speeds"]))


@app.command("inference")
def inference(
    ctx: typer.Context,
    as_json: options.Json = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also 10 to 512 dimensions, near and far pairs.")
    ] = False,
    scale: Annotated[
        str, typer.Option(help="full: the paper's sizes; quick: a small check in seconds.")
    ] = "full",
    repeats: Annotated[int, typer.Option(help="Runs of our solver; the median counts.")] = 30,
    seed: Annotated[int, typer.Option(help="For operators, pairs and start.")] = 0,
) -> None:
    """Compare our coefficient inference with the solvers of the paper."""
    from transop.errors import UserError
    from transop_paper.bench import inference as bench
    from transop_paper.numbers import speed

    scales = {
        "full": (bench.PAPER_SIZES, bench.SWEEP, 400),
        "quick": (bench.QUICK_SIZES, bench.QUICK_SWEEP, 40),
    }
    if scale not in scales:
        raise UserError(f"--scale {scale} is unknown; choose from {', '.join(scales)}")
    sizes, swept, learning_steps = scales[scale]
    found = bench.bench_inference(
        sizes,
        repeats=repeats,
        learning_steps=learning_steps,
        sweep=swept if sweep else (),
        seed=seed,
        progress=ctx.obj.progress,
    )
    report = dataclasses.asdict(found)
    tables = [speed.inference(report, place) for place in range(len(sizes))]
    _show(ctx, report, *tables, *([speed.inference_sweep(report)] if sweep else []))


@app.command("train")
def train(
    ctx: typer.Context,
    as_json: options.Json = False,
    batches: Annotated[int, typer.Option(help="Batches of either; theirs take seconds each.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Pairs per batch.")] = 250,
    pairs: Annotated[int, typer.Option(help="Pairs per epoch, to extrapolate to.")] = 50_000,
    latent: Annotated[int, typer.Option(help="Latent dimension.")] = 10,
    operators: Annotated[int, typer.Option(help="Operators in the dictionary.")] = 16,
    learning_steps: Annotated[
        int, typer.Option(help="Steps by which the common start is learned.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="For start and pairs.")] = 0,
) -> None:
    """Compare an operator-phase epoch of ours with one of the authors' algorithm."""
    from transop_paper.bench.train import TrainSize, bench_train
    from transop_paper.numbers.speed import operator_training

    found = bench_train(
        TrainSize(latent, operators, batch_size, pairs),
        n_batches=batches,
        learning_steps=learning_steps,
        seed=seed,
        progress=ctx.obj.progress,
    )
    report = dataclasses.asdict(found)
    _show(ctx, report, operator_training(report))


@app.command("augment")
def augment(
    ctx: typer.Context,
    run: Runs = None,
    batch_size: Annotated[int, typer.Option(help="Images per call.")] = 256,
    trials: Annotated[int, typer.Option(help="Calls that are timed.")] = 15,
    device: Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Time learned moves against kornia's RandAugment and elastic transform."""
    from transop import Run
    from transop_paper.bench.augment import bench_augment
    from transop_paper.numbers.speed import augmentation_speed

    found = bench_augment(
        batch_size=batch_size,
        n_trials=trials,
        runs=[Run.open(folder) for folder in run or ()],
        device=device,
        progress=ctx.obj.progress,
    )
    report = dataclasses.asdict(found)
    _show(ctx, report, *(augmentation_speed(report, side) for side in _sides(report)))


@app.command("loop")
def loop(
    ctx: typer.Context,
    run: Runs = None,
    batch_size: Annotated[int, typer.Option(help="Images per step.")] = 256,
    steps: Annotated[int, typer.Option(help="Steps that are timed.")] = 20,
    rounds: Annotated[int, typer.Option(help="Turns of every loop.")] = 3,
    workers: Annotated[int, typer.Option(help="Processes of the DataLoader.")] = 2,
    as_json: options.Json = False,
) -> None:
    """Time a training loop with no, fixed and learned augmentation, with and without workers."""
    from transop.model import ManifoldAutoencoder
    from transop_paper.bench.loop import LoopSize, bench_loop
    from transop_paper.numbers.speed import training_loops

    found = bench_loop(
        LoopSize(batch_size, steps, rounds, workers),
        models=[ManifoldAutoencoder.from_pretrained(folder) for folder in run or ()],
        progress=ctx.obj.progress,
    )
    report = dataclasses.asdict(found)
    _show(ctx, report, *(training_loops(report, side) for side in _sides(report)))
