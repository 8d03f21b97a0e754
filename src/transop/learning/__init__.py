"""The paper's central act, on tensors alone: learn transport operators from pairs of vectors."""

from transop.learning.learn import (
    LearnedOperators,
    choose_objective,
    learn_operators,
    mean_length,
)
from transop.learning.step import Objective, OperatorStep, measure_paths

__all__ = [
    "LearnedOperators",
    "Objective",
    "OperatorStep",
    "choose_objective",
    "learn_operators",
    "mean_length",
    "measure_paths",
]
