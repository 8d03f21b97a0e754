"""Moved copies of images: along operators, or one of the controls.

Every kind of move starts at the same latents, has the same lengths and passes the same guard, so
that a difference between two rows is due to the direction of the moves alone.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import kl_div, normalize

from transop.augment import Guard, TransportAugment
from transop.model import ManifoldAutoencoder
from transop.operators import sample_laplace, transport
from transop.progress import Progress, silent
from transop_paper.scarce.fast_lenet import IN_HALF

Kind = Literal["operators", "worst", "noise", "lines"]
Draw = Callable[[Tensor], Tensor]  # rows to moved points

_ATTEMPTS = 4  # how often a refused move is drawn again; then the point stays where it is
_AT_ONCE = 2_500
_PROBE = 0.1  # length of the trial move that shows the worst direction, in units of the scales


class EqualNoise:
    """Random latent directions, as far as an augmentation moves, past the same guard."""

    def __init__(self, moves: TransportAugment, generator: torch.Generator) -> None:
        self.model, self._moves, self._generator = moves.model, moves, generator

    @torch.no_grad()
    def sample(
        self, latents: Float[Tensor, "b d"], labels: Int[Tensor, " b"] | None = None
    ) -> tuple[Float[Tensor, "b c h w"], Bool[Tensor, " b"]]:
        """Draw moved images of points, and say which of them the guard accepted.

        A point whose move along operators was refused is refused.
        """
        guard = self._moves.guard
        ends, accepted = self._moves.move(latents, labels)
        lengths = torch.linalg.vector_norm(ends - latents, dim=1, keepdim=True)
        if guard is None:
            return self.model.decode(self._towards_anywhere(latents, lengths)), accepted
        names = self._opinion(guard, latents).argmax(1) if labels is None else labels
        points, left = latents.clone(), accepted.nonzero()[:, 0]
        for _ in range(1 + guard.attempts):
            drawn = self._towards_anywhere(latents[left], lengths[left])
            passed = guard.accepts(self._opinion(guard, drawn), names[left])
            points[left[passed]] = drawn[passed]
            left = left[~passed]
            if not len(left):
                break
        accepted[left] = False
        return self.model.decode(points), accepted

    def _towards_anywhere(
        self, points: Float[Tensor, "b d"], lengths: Float[Tensor, "b 1"]
    ) -> Float[Tensor, "b d"]:
        drawn = torch.randn(points.shape, generator=self._generator).to(points)
        return points + lengths * normalize(drawn, dim=1)

    def _opinion(self, guard: Guard, points: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        inputs = self.model.decode(points) if guard.reads_images(self.model) else points
        return guard.logits(self.model, inputs)


@dataclass
class Mover:
    """Draws moves of latent points that keep the opinion of the model's latent classifier."""

    model: ManifoldAutoencoder  # its operators, coefficient encoder and latent classifier are used
    latents: Float[Tensor, "n d"]  # all training images, in scaled units
    neighbours: Int[Tensor, "n k"]  # nearest latents of each, for moves along straight lines
    _: KW_ONLY
    # "noise" goes in random directions, "lines" to or beyond one of the nearest neighbours,
    # "worst" along the operators that change a network's answer most
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
        return points + lengths * normalize(drawn, dim=1)

    def _towards_neighbours(self, rows: Int[Tensor, " b"], lengths: Tensor) -> Float[Tensor, "b d"]:
        points = self.latents[rows]
        choice = torch.randint(self.neighbours.shape[1], rows.shape, generator=self.generator)
        direction = self.latents[self.neighbours[rows, choice]] - points
        return points + lengths * normalize(direction, dim=1)

    @torch.no_grad()
    def worst(
        self,
        rows: Int[Tensor, " b"],
        images: Float[Tensor, "b c h w"],
        network: nn.Module,
        lost: Tensor | float = 0.0,
    ) -> Float[Tensor, "b d"]:
        """Move along the mix of operators that a network likes least, as far as a random move.

        One power iteration, as in virtual adversarial training (Miyato et al., 2018): the
        gradient of the divergence between the answers before and after a small trial move says
        which coefficients, in units of the encoder's scales, change the answer most. Where the
        guard refuses the result, the random move that gave the length is taken.

        ``lost`` is the detail that is added to decoded images.
        """
        points, operators = self.latents[rows], self.model.operators.operators.detach()
        random, scales = self._guarded(rows, self._along_operators), self.model.scales_at(points)
        answer = network(images).softmax(1)
        trial = torch.randn(scales.shape, generator=self.generator)
        trial = (_PROBE * normalize(trial, dim=1)).requires_grad_()
        with torch.enable_grad():
            tried = transport(operators, trial * scales, points)
            pictures = self.draw(tried, gradients=True) + lost
            change = kl_div(network(pictures).log_softmax(1), answer, reduction="sum")
            (worst,) = torch.autograd.grad(change, trial)
        coefficients = scales * normalize(worst, dim=1)
        step = torch.einsum("bm,mij,bj->bi", coefficients, operators, points)
        wanted, found = (torch.linalg.vector_norm(x, dim=1) for x in (random - points, step))
        coefficients *= (wanted / found.clamp_min(1e-12))[:, None]
        moved = transport(operators, coefficients, points)
        if self.threshold is not None:
            refused = self._refused(moved, self.model.classify_latents(points).argmax(1))
            moved[refused] = random[refused]
        return moved

    def draw(
        self, points: Float[Tensor, "b d"], *, gradients: bool = False
    ) -> Float[Tensor, "b c h w"]:
        """Decode points in short numbers, where the processor has them."""
        with torch.autocast("cpu", torch.bfloat16, enabled=IN_HALF):
            return self.model.decode(points, gradients=gradients).float()

    def lost(
        self, rows: Int[Tensor, " b"], images: Float[Tensor, "b c h w"]
    ) -> Float[Tensor, "*b_c_h_w"]:
        """Give the detail that the autoencoder loses, as far as it is to be added to copies."""
        if not self.residual:
            return torch.zeros(())
        return self.residual * (images - self.model.decode(self.latents[rows]))

    def relative_lengths(
        self, rows: Int[Tensor, " b"], moved: Float[Tensor, "b d"]
    ) -> Float[Tensor, " b"]:
        """Compare the length of moves with the points they start from."""
        starts = self.latents[rows]
        sizes = torch.linalg.vector_norm(starts, dim=1).clamp_min(1e-12)
        lengths: Tensor = torch.linalg.vector_norm(moved - starts, dim=1) / sizes
        return lengths

    def fill_pool(
        self, images: Callable[[Tensor], Tensor], n_copies: int, progress: Progress = silent
    ) -> tuple[UInt8[Tensor, "n copies c h w"], float]:
        """Draw moved copies of every image, in bytes to save memory, and the mean relative move."""
        n = len(self.latents)
        pool = torch.empty(n, n_copies, *self.model.image_shape, dtype=torch.uint8)
        length, starts = 0.0, range(0, n, _AT_ONCE)
        for start in progress(starts, "moving images", len(starts)):
            rows = torch.arange(start, min(start + _AT_ONCE, n))
            lost = self.lost(rows, images(rows))
            for copy in range(n_copies):
                moved = self.move(rows)
                length += float(self.relative_lengths(rows, moved).sum()) / (n * n_copies)
                pictures = (self.model.decode(moved) + lost).clamp(0, 1)
                pool[rows, copy] = pictures.mul(255).round_().to(torch.uint8)
        return pool, length
