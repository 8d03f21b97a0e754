"""Scarce labels: a small network, ten labelled images per class, one augmentation or another."""

from transop.scarce.experiment import (
    Experiment,
    fingerprint_weights,
    open_experiment,
    run_row,
)
from transop.scarce.fixed import distort_elastically, rand_augment
from transop.scarce.picture import draw_table
from transop.scarce.protocol import SCALES, Protocol
from transop.scarce.results import Summary, summarise, write_table
from transop.scarce.rows import Row, find_rows, known_rows
from transop.scarce.schedule import run_table

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
