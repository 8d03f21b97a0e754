"""The paper's classifier of faces: yes/no attributes instead of one class."""

from transop.networks import ClassifierKind
from transop_paper.attributes.network import AttributeNet, build_attribute_net
from transop_paper.attributes.training import (
    attribute_accuracies,
    make_attribute_classifier,
    train_attributes,
    wants_attributes,
)

__all__ = ["ATTRIBUTES", "AttributeNet", "build_attribute_net"]

ATTRIBUTES = ClassifierKind(
    build=build_attribute_net,
    suits=wants_attributes,
    make=make_attribute_classifier,
    train=train_attributes,
    measure=attribute_accuracies,
)
