"""How library code announces long work without drawing anything itself.

A function that may take more than a few seconds accepts ``progress``, a callable that wraps
an iterable and hands back the same items. The command line passes one that draws a bar.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


@runtime_checkable  # so that tests can check annotations while they run
class Progress(Protocol):
    """Wraps an iterable, showing how far it has come under a description."""

    def __call__(
        self, items: Iterable[Item], description: str, total: int | None = None
    ) -> Iterator[Item]:
        """Yield the items unchanged."""
        ...


def silent(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items and show nothing."""
    del description, total
    yield from items
