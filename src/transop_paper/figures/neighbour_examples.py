"""Collect neighbours under several strategies, side by side, for a picture of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.data import ImageDataset
from transop.errors import UserError
from transop.pairs import MISSING, PairSource


@dataclass(frozen=True, eq=False)
class NeighbourExamples:
    """Some images and their partners under each strategy, in the order of the paper's figure.

    Attributes:
        anchors: positions of the images within the split.
        anchor_images: values in [0, 1].
        neighbours: per strategy the positions of partners, -1 where there are too few.
        neighbour_images: per strategy their images; white where there is no partner.
    """

    anchors: Int64[Tensor, " a"]
    anchor_images: Float[Tensor, "a c h w"]
    neighbours: dict[str, Int64[Tensor, "a k"]]
    neighbour_images: dict[str, Float[Tensor, "a k c h w"]]


def neighbour_examples(
    dataset: ImageDataset,
    sources: Mapping[str, PairSource],
    *,
    anchors: Sequence[int] | Int64[Tensor, " a"] | None = None,
    n_anchors: int = 6,
    n_neighbours: int = 3,
    generator: torch.Generator | None = None,
) -> NeighbourExamples:
    """Show whom each strategy pairs the same images with.

    Args:
        dataset: the images the sources were built from.
        sources: a pair source per name, all of the same split.
        anchors: positions within the split; drawn at random if not given.
        n_anchors: how many to draw.
        n_neighbours: partners per image: the nearest ones, or drawn where the strategy has no
            order.
        generator: the source of randomness.

    Returns:
        Positions and images, ready to be drawn.
    """
    rows = _common_rows(sources)
    if anchors is None:
        anchors = torch.randperm(len(rows), generator=generator)[:n_anchors]
    chosen = torch.as_tensor(anchors, dtype=torch.int64)
    if len(chosen) == 0 or int(chosen.min()) < 0 or int(chosen.max()) >= len(rows):
        raise UserError(
            f"anchors={chosen.tolist()} must be positions from 0 to {len(rows) - 1} in the split"
        )
    neighbours = {
        name: _partners(source, chosen, n_neighbours, generator) for name, source in sources.items()
    }
    return NeighbourExamples(
        anchors=chosen,
        anchor_images=dataset.batch(rows[chosen]),
        neighbours=neighbours,
        neighbour_images={name: _images(dataset, rows, n) for name, n in neighbours.items()},
    )


def _common_rows(sources: Mapping[str, PairSource]) -> Int64[Tensor, " n"]:
    if not sources:
        raise UserError("sources is empty; pass at least one pair source by name")
    first, *others = [source.rows for source in sources.values()]
    if any(not torch.equal(first, other) for other in others):
        raise UserError("sources were built from different splits; build them from the same one")
    return first


def _partners(
    source: PairSource,
    anchors: Int64[Tensor, " a"],
    n_neighbours: int,
    generator: torch.Generator | None,
) -> Int64[Tensor, "a k"]:
    """Take the nearest partners, or draw some where there is no table."""
    found = torch.full((len(anchors), n_neighbours), MISSING, dtype=torch.int64)
    if source.neighbours is not None:
        known = source.neighbours[anchors, :n_neighbours]
        found[:, : known.shape[1]] = known
        return found
    paired = source.partners.counts()[anchors] > 0
    for column in range(n_neighbours):
        found[paired, column] = source.partners.draw(anchors[paired], generator)
    return found


def _images(
    dataset: ImageDataset, rows: Int64[Tensor, " n"], positions: Int64[Tensor, "a k"]
) -> Float[Tensor, "a k c h w"]:
    flat = positions.flatten()
    images = dataset.batch(rows[flat.clamp_min(0)])
    images[flat == MISSING] = 1.0
    return images.view(*positions.shape, *images.shape[1:])
