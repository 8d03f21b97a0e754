"""Scarce labels: a small network, ten labelled images per class, one augmentation or another."""

from transop_paper.scarce.batches import distort_elastically, rand_augment
from transop_paper.scarce.experiment import (
    Experiment,
    fingerprint_weights,
    open_experiment,
    run_row,
    run_table,
)
from transop_paper.scarce.protocol import SCALES, Protocol
from transop_paper.scarce.results import (
    Difference,
    Summary,
    compare_rows,
    draw_table,
    summarise,
    write_differences,
    write_table,
)
from transop_paper.scarce.rows import (
    ENTRY,
    GROUPS,
    Row,
    Unlabelled,
    find_rows,
    known_rows,
    read_changes,
)

__all__ = [
    "ENTRY",
    "GROUPS",
    "SCALES",
    "Difference",
    "Experiment",
    "Protocol",
    "Row",
    "Summary",
    "Unlabelled",
    "compare_rows",
    "distort_elastically",
    "draw_table",
    "find_rows",
    "fingerprint_weights",
    "known_rows",
    "open_experiment",
    "rand_augment",
    "read_changes",
    "run_row",
    "run_table",
    "summarise",
    "write_differences",
    "write_table",
]
