"""``transop bench train``: operator steps of ours beside the authors'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transop.cli import Terminal, options

if TYPE_CHECKING:
    from transop_paper.bench.train import TrainBenchmark


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
    from dataclasses import asdict

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
        terminal.result_json(asdict(report))
    else:
        _print_report(terminal, report)


def _print_report(terminal: Terminal, report: TrainBenchmark) -> None:
    size = report.size
    terminal.result(
        f"latent {size.dimension}, {size.n_operators} operators, batches of {size.batch_size}; "
        f"{report.n_batches} batches of either in turn, {report.n_threads} threads"
    )
    terminal.result_table(
        "One step on the operators",
        ["way", "ms / batch", f"s / epoch of {size.n_pairs:,} pairs", "objective"],
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
