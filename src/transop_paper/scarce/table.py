"""Run rows and seeds, one after another or in several processes; finished results are kept."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import torch

from transop.progress import Progress, silent
from transop_paper.scarce.experiment import Experiment, run_row
from transop_paper.scarce.rows import Row


def run_table(
    experiment: Experiment,
    rows: Sequence[Row],
    n_seeds: int,
    *,
    n_processes: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Compute every row with seeds 0 to ``n_seeds`` - 1, skipping results that are on disk.

    Args:
        experiment: what all rows share.
        rows: the rows.
        n_seeds: how many seeds.
        n_processes: how many to run at once, each on one thread.
        force: compute again what is there.
        progress: announces long work.
    """
    tasks = tasks_in_order(rows, n_seeds, n_processes)
    if n_processes <= 1:
        return [
            run_row(experiment, row, seed, force=force, progress=progress)
            for row, seed in progress(tasks, "rows and seeds", len(tasks))
        ]
    # Spawned, not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_processes, context, _receive, (experiment,)) as pool:
        futures = {pool.submit(_compute, row, seed, force): row for row, seed in tasks}
        done = as_completed(futures)
        try:
            return [f.result() for f in progress(done, "rows and seeds", len(tasks))]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def tasks_in_order(rows: Sequence[Row], n_seeds: int, n_processes: int) -> list[tuple[Row, int]]:
    """Put seeds outside, so that a table interrupted early has every row.

    Several processes work on different seeds of one row: rows of one seed may share a classifier
    that is trained once, and would wait for each other.
    """
    together = max(n_processes, 1)
    return [
        (row, seed)
        for first in range(0, n_seeds, together)
        for row in rows
        for seed in range(first, min(first + together, n_seeds))
    ]


_experiment: Experiment | None = None


def _receive(experiment: Experiment) -> None:
    """Keep the experiment for all tasks of this process."""
    global _experiment
    torch.set_num_threads(1)
    _experiment = experiment


def _compute(row: Row, seed: int, force: bool) -> dict[str, Any]:
    assert _experiment is not None
    return run_row(_experiment, row, seed, force=force)
