"""Moved copies of all training images: along operators, or one of the controls.

Every kind of move starts at the same latents, has the same lengths and passes the same guard, so
that a difference between two rows is due to the direction of the moves alone.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from transop.model import ManifoldAutoencoder
from transop.operators import sample_laplace, transport
from transop.progress import Progress, silent

Kind = Literal["operators", "noise", "lines"]
Draw = Callable[[Tensor], Tensor]  # rows to moved points

_ATTEMPTS = 4  # how often a refused move is drawn again; then the point stays where it is
_AT_ONCE = 2_500


@dataclass
class Mover:
    """Draws moves of latent points that keep the opinion of the model's latent classifier."""

    model: ManifoldAutoencoder  # its operators, coefficient encoder and latent classifier are used
    latents: Float[Tensor, "n d"]  # all training images, in scaled units
    neighbours: Int[Tensor, "n k"]  # nearest latents of each, for moves along straight lines
    _: KW_ONLY
    # "noise" goes in random directions, "lines" to or beyond one of the nearest neighbours
    kind: Kind
    multiplier: float  # factor on the encoder's scales
    n_steps: int  # of a walk along operators; scales are read again at every step
    threshold: float | None  # probability that the classifier must keep; None for no guard
    residual: float = 0.0  # share of the detail lost by the autoencoder that is added back
    generator: torch.Generator

    @torch.no_grad()
    def move(self, rows: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Give one moved point for each row; a refused one stays where it was."""
        moved = self._guarded(rows, self._along_operators)
        if self.kind == "operators":
            return moved
        lengths = torch.linalg.vector_norm(moved - self.latents[rows], dim=1, keepdim=True)
        draw = self._noise if self.kind == "noise" else self._towards_neighbours
        everyone = torch.arange(len(rows))
        return self._guarded(everyone, lambda some: draw(rows[some], lengths[some]), rows)

    def _guarded(
        self, rows: Int[Tensor, " b"], draw: Draw, starts: Tensor | None = None
    ) -> Float[Tensor, "b d"]:
        """Draw moves, and draw those again that change the classifier's opinion."""
        points = self.latents[rows if starts is None else starts]
        moved = draw(rows)
        if self.threshold is None:
            return moved
        names = self.model.classify_latents(points).argmax(1)
        refused = self._refused(moved, names)
        for _ in range(_ATTEMPTS):
            if not len(refused):
                break
            moved[refused] = draw(rows[refused])
            refused = refused[self._refused(moved[refused], names[refused])]
        moved[refused] = points[refused]
        return moved

    def _refused(self, points: Float[Tensor, "b d"], names: Int[Tensor, " b"]) -> Int[Tensor, " r"]:
        kept = self.model.classify_latents(points).softmax(1).gather(1, names[:, None])[:, 0]
        assert self.threshold is not None
        return (kept < self.threshold).nonzero()[:, 0]

    def _along_operators(self, rows: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        points = self.latents[rows]
        operators = self.model.operators.operators
        for _ in range(self.n_steps):
            scales = self.multiplier * self.model.scales_at(points)
            points = transport(operators, sample_laplace(scales, generator=self.generator), points)
        return points

    def _noise(self, rows: Int[Tensor, " b"], lengths: Tensor) -> Float[Tensor, "b d"]:
        points = self.latents[rows]
        drawn = torch.randn(points.shape, generator=self.generator)
        return points + lengths * torch.nn.functional.normalize(drawn, dim=1)

    def _towards_neighbours(self, rows: Int[Tensor, " b"], lengths: Tensor) -> Float[Tensor, "b d"]:
        points = self.latents[rows]
        choice = torch.randint(self.neighbours.shape[1], rows.shape, generator=self.generator)
        direction = self.latents[self.neighbours[rows, choice]] - points
        return points + lengths * torch.nn.functional.normalize(direction, dim=1)

    def fill_pool(
        self, images: Callable[[Tensor], Tensor], n_copies: int, progress: Progress = silent
    ) -> tuple[UInt8[Tensor, "n copies c h w"], float]:
        """Draw moved copies of every image, in bytes to save memory, and the mean relative move."""
        model, latents, n = self.model, self.latents, len(self.latents)
        pool = torch.empty(n, n_copies, *model.image_shape, dtype=torch.uint8)
        length, starts, lost = 0.0, range(0, n, _AT_ONCE), torch.zeros(())
        for start in progress(starts, "moving images", len(starts)):
            rows = torch.arange(start, min(start + _AT_ONCE, n))
            sizes = torch.linalg.vector_norm(latents[rows], dim=1).clamp_min(1e-12)
            if self.residual:
                lost = self.residual * (images(rows) - model.decode(latents[rows]))
            for copy in range(n_copies):
                points = self.move(rows)
                moves = torch.linalg.vector_norm(points - latents[rows], dim=1) / sizes
                length += float(moves.sum()) / (n * n_copies)
                pictures = (model.decode(points) + lost).clamp(0, 1)
                pool[rows, copy] = pictures.mul(255).round_().to(torch.uint8)
        return pool, length
