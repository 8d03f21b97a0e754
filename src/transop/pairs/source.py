"""Draw pairs: a start image and, at random, one of the partners it may have."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from transop.errors import DataError, UserError
from transop.inputs import check_generator, check_indices, check_whole
from transop.pairs.neighbours import MISSING, group_members

# What counts as around an image: partners, and partners' partners, so many of each.
_RINGS, _DRAWN_AROUND = 2, 5

Pair = tuple[Int64[Tensor, " b"], Int64[Tensor, " b"]]


@dataclass(frozen=True, eq=False)
class ListedPartners:
    """Partners written out one by one: the lists of all images in a row, cut by offsets."""

    offsets: Int64[Tensor, " n+1"]
    targets: Int64[Tensor, " p"]

    @classmethod
    def from_table(cls, table: Int64[Tensor, "n k"]) -> "ListedPartners":
        """Read a neighbour table, in which -1 means no neighbour."""
        present = table != MISSING
        offsets = torch.zeros(len(table) + 1, dtype=torch.int64)
        offsets[1:] = present.sum(1).cumsum(0)
        # A table without gaps is the list already: no need to hold it twice.
        return cls(offsets, table.flatten() if bool(present.all()) else table[present])

    @classmethod
    def from_pairs(cls, pairs: Int64[Tensor, "p 2"], n_images: int) -> "ListedPartners":
        """Read a list of (start, end) positions; repeated pairs are drawn more often."""
        order = pairs[:, 0].argsort(stable=True)
        offsets = torch.zeros(n_images + 1, dtype=torch.int64)
        offsets[1:] = pairs[:, 0].bincount(minlength=n_images).cumsum(0)
        return cls(offsets, pairs[order, 1])

    def counts(self) -> Int64[Tensor, " n"]:
        """Say how many partners every image has."""
        return self.offsets.diff()

    def draw(
        self, anchors: Int64[Tensor, " b"], generator: torch.Generator | None
    ) -> Int64[Tensor, " b"]:
        """Choose one listed partner per anchor, each equally likely."""
        start = self.offsets[anchors]
        return self.targets[start + _below(self.offsets[anchors + 1] - start, generator)]

    def agreement(self, labels: Int64[Tensor, " n"]) -> float:
        """Give the share of equal labels, averaged over each image's partners, then images."""
        counts = self.counts()
        anchors = torch.arange(len(counts)).repeat_interleave(counts)
        equal = (labels[anchors] == labels[self.targets]).double()
        per_image = torch.zeros(len(counts), dtype=torch.float64).index_add_(0, anchors, equal)
        paired = counts > 0
        return float((per_image[paired] / counts[paired]).mean())


class GroupPartners:
    """Partners are all other members of an image's group; one group holds everyone at most."""

    def __init__(self, groups: Int64[np.ndarray, " n"]) -> None:
        self.groups = groups
        members = group_members(groups)
        sizes = torch.tensor([len(m) for m in members])
        self._members = torch.from_numpy(np.concatenate(members))  # positions, group by group
        self._place = self._members.argsort()  # where an image stands in it
        self._start = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)[self._place]
        self._size = sizes.repeat_interleave(sizes)[self._place]

    def counts(self) -> Int64[Tensor, " n"]:
        """Say how many partners every image has: its group without itself."""
        return self._size - 1

    def draw(
        self, anchors: Int64[Tensor, " b"], generator: torch.Generator | None
    ) -> Int64[Tensor, " b"]:
        """Choose one other member of each anchor's group, each equally likely."""
        start, size = self._start[anchors], self._size[anchors]
        own = self._place[anchors] - start
        # 1 to size-1 steps onwards, around the group: never back to the anchor itself
        return self._members[start + (own + 1 + _below(size - 1, generator)) % size]

    def agreement(self, labels: Int64[Tensor, " n"]) -> float:
        """Give the expected share of equal labels, from counts per group and label."""
        _, group = torch.unique(torch.from_numpy(self.groups), return_inverse=True)
        _, label = torch.unique(labels, return_inverse=True)
        key = group * (label.max() + 1) + label
        same = key.bincount()[key] - 1
        paired = self._size > 1
        return float((same[paired].double() / (self._size[paired] - 1)).mean())


Partners = ListedPartners | GroupPartners  # who may be paired with whom, as positions


@dataclass(frozen=True, eq=False)
class PairSource:
    """Pairs of images of one split, to be drawn as often as wanted.

    All indices are positions within the split: rows of ``dataset.subset(split)`` and of
    anything computed from it, such as latents. ``rows`` turns them into data set indices.
    """

    strategy: str  # the name under which the pairs were built
    partners: Partners
    rows: Int64[Tensor, " n"]  # the data set index of every position
    # The table behind the pairs, nearest first, if there is one; -1 where neighbours are missing.
    neighbours: Int64[Tensor, "n k"] | None = None
    recall: float | None = None  # share of true neighbours in a sample, if search was approximate
    anchors: Int64[Tensor, " a"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        anchors = self.partners.counts().nonzero().flatten()
        if len(anchors) == 0:
            raise DataError(
                f"strategy={self.strategy!r} leaves no image with a partner; "
                "use more images per group, other pairs or another strategy"
            )
        object.__setattr__(self, "anchors", anchors)

    def __len__(self) -> int:
        """Count the images that have a partner: the pairs of an epoch."""
        return len(self.anchors)

    def sample(self, generator: torch.Generator | None, batch_size: int) -> Pair:
        """Draw start images with replacement, and a partner for each; give their positions."""
        batch_size = check_whole("batch_size", batch_size, least=1)
        chosen = torch.randint(len(self), (batch_size,), generator=check_generator(generator))
        return self._draw(chosen, generator)

    def epoch(self, generator: torch.Generator | None, batch_size: int) -> Iterator[Pair]:
        """Visit every start image once in random order, each with a freshly drawn partner.

        The last batch may be smaller than ``batch_size``.
        """
        batch_size = check_whole("batch_size", batch_size, least=1)
        order = torch.randperm(len(self.anchors), generator=check_generator(generator))
        for chosen in torch.split(order, batch_size):
            yield self._draw(chosen, generator)

    def _draw(self, chosen: Int64[Tensor, " b"], generator: torch.Generator | None) -> Pair:
        starts = self.anchors[chosen]
        return starts, self.partners.draw(starts, generator)

    def around(
        self, positions: Int64[Tensor, " b"], generator: torch.Generator | None
    ) -> Int64[Tensor, "b k"]:
        """Name each image, some of its partners and some of theirs, drawn with replacement."""
        counts = self.partners.counts()
        rings = [positions[:, None]]
        for _ in range(_RINGS):
            ring = rings[-1].repeat_interleave(_DRAWN_AROUND, 1)
            paired = counts[ring] > 0  # an image without partners is named again
            ring[paired] = self.partners.draw(ring[paired], generator)
            rings.append(ring)
        return torch.cat(rings, 1)

    def label_agreement(self, labels: Int64[np.ndarray, " n"] | Int64[Tensor, " n"]) -> float:
        """Give the share of pairs of an epoch whose images carry the same label.

        There is one label per image of the split, or one per image of the data set.
        """
        values = check_indices("labels", labels, torch.iinfo(torch.int64).max, least=-1)
        if len(values) != len(self.rows):
            if len(values) <= int(self.rows.max()):
                raise UserError(
                    f"labels has {len(values)} values; pass one for each of the "
                    f"{len(self.rows)} images of the split"
                )
            values = values[self.rows]
        return self.partners.agreement(values)


def _below(limits: Int64[Tensor, " b"], generator: torch.Generator | None) -> Int64[Tensor, " b"]:
    """Draw a whole number from 0 to limit-1 for every limit."""
    # float64 has 53 bits: no list is long enough for the rounding to show
    u = torch.rand(len(limits), generator=generator, dtype=torch.float64)
    return (u * limits).long().minimum(limits - 1)
