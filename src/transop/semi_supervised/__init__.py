"""Learn a classifier from few labelled and many unlabelled images."""

from transop.semi_supervised.classifier import ExpectedAccuracy, FewLabelClassifier, GraphLabels
from transop.semi_supervised.consistency import Consistency, train_consistently
from transop.semi_supervised.features import joint_features
from transop.semi_supervised.graph import spread_labels, weigh_neighbours
from transop.semi_supervised.learner import learn_from_few_labels

__all__ = [
    "Consistency",
    "ExpectedAccuracy",
    "FewLabelClassifier",
    "GraphLabels",
    "joint_features",
    "learn_from_few_labels",
    "spread_labels",
    "train_consistently",
    "weigh_neighbours",
]
