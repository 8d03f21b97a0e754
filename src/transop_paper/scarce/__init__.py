"""Scarce labels: a small network, ten labelled images per class, one augmentation or another."""

from transop_paper.scarce.experiment import (
    Experiment,
    fingerprint_weights,
    open_experiment,
    run_row,
)
from transop_paper.scarce.fixed import distort_elastically, rand_augment
from transop_paper.scarce.picture import draw_table
from transop_paper.scarce.protocol import SCALES, Protocol
from transop_paper.scarce.results import Summary, summarise, write_table
from transop_paper.scarce.rows import Row, find_rows, known_rows
from transop_paper.scarce.table import run_table

__all__ = [
    "SCALES",
    "Experiment",
    "Protocol",
    "Row",
    "Summary",
    "distort_elastically",
    "draw_table",
    "find_rows",
    "fingerprint_weights",
    "known_rows",
    "open_experiment",
    "rand_augment",
    "run_row",
    "run_table",
    "summarise",
    "write_table",
]
