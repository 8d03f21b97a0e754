"""What counts as the same image: labels, a classifier, or groups of the neighbour graph."""

from transop.identity.graph import Communities, agreement, find_communities, neighbour_graph
from transop.identity.interface import (
    Identity,
    Source,
    choose_source,
    describe_identity,
    has_labels,
)

__all__ = [
    "Communities",
    "Identity",
    "Source",
    "agreement",
    "choose_source",
    "describe_identity",
    "find_communities",
    "has_labels",
    "neighbour_graph",
]
