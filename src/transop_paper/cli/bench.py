"""``transop bench``: measurements, with every contender in the same run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop.extras import require
from transop_app.cli import Terminal, options
from transop_paper.cli.bench_augment import bench_augment, bench_loop
from transop_paper.cli.bench_data import bench_faces, bench_memory, bench_pairs

if TYPE_CHECKING:
    from transop_paper.bench.inference import InferenceBenchmark, SizeReport, SweepPoint
    from transop_paper.bench.train import TrainBenchmark

app = typer.Typer(help="Measure speed, with every contender in the same run.")


@app.callback()
def _group() -> None:
    """Measure speed, with every contender in the same run."""
    require("paper", "transop bench")


app.command("pairs")(bench_pairs)
app.command("faces")(bench_faces)
app.command("memory")(bench_memory)
app.command("augment")(bench_augment)
app.command("loop")(bench_loop)


@app.command("inference")
def inference(
    ctx: typer.Context,
    as_json: options.Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the paper's inference-time figure (.png or .svg).")
    ] = None,
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
    from transop_paper.bench.inference import (
        PAPER_SIZES,
        QUICK_SIZES,
        QUICK_SWEEP,
        SWEEP,
        bench_inference,
    )

    terminal: Terminal = ctx.obj
    sizes = {"full": PAPER_SIZES, "quick": QUICK_SIZES}
    if scale not in sizes:
        raise UserError(f"--scale {scale} is unknown; choose from {', '.join(sizes)}")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise UserError(f"--plot {plot} must end in .png or .svg")
    report = bench_inference(
        sizes[scale],
        repeats=repeats,
        learning_steps=400 if scale == "full" else 40,
        sweep=(SWEEP if scale == "full" else QUICK_SWEEP) if sweep else (),
        seed=seed,
        progress=terminal.progress,
    )
    if plot is not None:
        from transop.plotting import write_figure
        from transop_paper.bench.inference_figure import draw_inference

        write_figure(draw_inference(report), plot)
        terminal.notice(f"wrote {plot}")
    if as_json:
        terminal.result_json(dataclasses.asdict(report))
    else:
        _print_report(terminal, report)


def _print_report(terminal: Terminal, report: InferenceBenchmark) -> None:
    terminal.result(
        f"{report.n_threads} threads, {report.peak_gflops:.0f} GFlop/s peak, "
        f"sparsity weight {report.sparsity_weight:g}, tolerance {report.tolerance:g}"
    )
    terminal.result(
        "ratio: time over ours; our/its: mean objectives; worst: our over its objective on the "
        "worst pair where it converged; used: non-zero coefficients per pair"
    )
    for size in report.sizes:
        _print_size(terminal, size)
    if report.sweep:
        terminal.result_table(
            "From few to many dimensions",
            [
                *("latent", "blocks", "operators", "pairs", "", "ours, ms", "us / pair"),
                *("iterations", "converged", "paper, s", "ratio", "our/its"),
            ],
            [_sweep_row(point) for point in report.sweep],
        )


def _sweep_row(point: SweepPoint) -> list[str]:
    size, theirs = point.size, point.reference_seconds
    counts = (size.dimension, size.n_blocks, size.n_operators, size.n_pairs)
    return [
        *map(str, counts),
        point.distance,
        f"{point.seconds * 1e3:.2f}",
        f"{point.seconds / size.n_pairs * 1e6:.1f}",
        f"{point.iterations:.1f}",
        f"{point.converged:.0%}",
        "" if theirs is None else f"{theirs:.2f}",
        "" if theirs is None else f"{theirs / point.seconds:,.0f}",
        "" if point.objective_ratio is None else f"{point.objective_ratio:.5f}",
    ]


def _print_size(terminal: Terminal, report: SizeReport) -> None:
    size, ours = report.size, report.runs[0]
    terminal.result_table(
        f"Latent {size.dimension}, {size.n_operators} operators, {size.n_pairs} pairs",
        ["solver", "seconds", "ratio", "objective", "our/its", "worst", "used"],
        [
            [
                run.solver,
                f"{run.median_seconds:#.3g}",
                f"{run.ratio:,.0f}",
                f"{run.objective:.6f}",
                f"{ours.objective / run.objective:.5f}",
                "" if run.worst_pair is None else f"{run.worst_pair:.4f}",
                f"{run.non_zeros:.2f}",
            ]
            for run in report.runs
        ],
    )
    shares = ", ".join(f"{run.solver} {run.converged:.0%}" for run in report.runs)
    terminal.result(f"pairs converged: {shares}")
    terminal.result(
        f"ours: {report.flops / 1e6:.3g} MFlop of useful work at {report.peak_share:.0%} of the "
        "floating-point peak (coordinate sweeps not counted)"
    )


@app.command("train")
def bench_train(
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
    from transop_paper.bench.train import TrainSize
    from transop_paper.bench.train import bench_train as measure

    terminal: Terminal = ctx.obj
    report = measure(
        TrainSize(latent, operators, batch_size, pairs),
        n_batches=batches,
        learning_steps=learning_steps,
        seed=seed,
        progress=terminal.progress,
    )
    if as_json:
        terminal.result_json(dataclasses.asdict(report))
    else:
        _print_training(terminal, report)


def _print_training(terminal: Terminal, report: TrainBenchmark) -> None:
    size = report.size
    terminal.result(
        f"latent {size.dimension}, {size.n_operators} operators, batches of {size.batch_size}; "
        f"{report.n_batches} batches of either in turn, {report.n_threads} threads"
    )
    terminal.result_table(
        "One step on the operators",
        ["algorithm", "ms / batch", f"s / epoch of {size.n_pairs:,} pairs", "objective"],
        [
            [
                run.name,
                f"{1e3 * run.seconds_per_batch:.2f}",
                f"{run.epoch_seconds:.1f}",
                f"{run.objective:.6f}",
            ]
            for run in (report.ours, report.authors)
        ],
    )
    terminal.result(
        f"ratio {report.ratio:,.0f}; objective of held-out pairs before: "
        f"{report.start_objective:.6f}"
    )
