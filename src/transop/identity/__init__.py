"""What counts as the same image: labels, a classifier, or groups of the neighbour graph."""

from transop.identity.agreement import agreement
from transop.identity.choice import choose_source, has_labels
from transop.identity.graph import Communities, find_communities, neighbour_graph
from transop.identity.interface import Identity, Source, describe_identity

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
