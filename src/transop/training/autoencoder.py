"""First phase: train the autoencoder on reconstruction alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.artifacts.pretrained import read_pretrained
from transop.data import ImageDataset
from transop.errors import ArtifactError
from transop.evaluation import PathModel, held_out_rows, reconstruction_error
from transop.networks import Autoencoder, prefer_channels_last
from transop.training.loop import Loop
from transop.training.perceptual import PerceptualError
from transop.training.session import Session

PHASE = "autoencoder"

# Takes the network (as the session has set it up), a batch of images and a generator.
AutoencoderLoss = Callable[
    [Callable[[Tensor], Tensor], Float[Tensor, "b c h w"], torch.Generator], Float[Tensor, ""]
]


def reconstruction_loss(
    decoded: Float[Tensor, "b c h w"], images: Float[Tensor, "b c h w"], edge_weight: float = 0.0
) -> Float[Tensor, ""]:
    """Measure the mean squared error of reconstructed pixels, and of their edges if asked to.

    [RECONSTRUCTION]  mean (x - x_hat)^2

    [EDGES]  weight (mean (D_h (x - x_hat))^2 + mean (D_v (x - x_hat))^2)

    D takes the difference of neighbouring pixels. A mouth has few pixels but sharp edges: without
    the second term, training has little reason to draw it.

    Differs from the paper: the mean instead of the sum over pixels, so that the learning rate
    does not depend on the image size; the paper has no term for edges.
    """
    error = decoded - images
    value = error.square().mean()
    if edge_weight > 0:
        across = (error[..., 1:] - error[..., :-1]).square().mean()
        along = (error[..., 1:, :] - error[..., :-1, :]).square().mean()
        value = value + edge_weight * (across + along)
    return value


class ReconstructionLoss:
    """The error of reconstruction that the settings of a run ask for."""

    def __init__(self, session: Session) -> None:
        extras = session.settings.beyond_paper
        self._edge_weight, self._perceptual = extras.edge_weight, None
        if extras.perceptual_weight > 0:
            self._perceptual = PerceptualError(extras.perceptual_weight, session.device)

    def __call__(
        self, decoded: Float[Tensor, "b c h w"], images: Float[Tensor, "b c h w"]
    ) -> Float[Tensor, ""]:
        """Add up [RECONSTRUCTION], [EDGES] and [PERCEPTUAL]."""
        value = reconstruction_loss(decoded, images, self._edge_weight)
        return value if self._perceptual is None else value + self._perceptual(decoded, images)


def train_autoencoder(
    session: Session,
    network: nn.Module,
    dataset: ImageDataset,
    *,
    loss: AutoencoderLoss | None = None,
) -> None:
    """Train an autoencoder in place on the training images.

    Args:
        session: the run.
        network: an autoencoder, or a baseline that holds one; its weights change.
        dataset: the images; only the split "train" is learned from.
        loss: what is minimised, if not the error of reconstruction; baselines bring their own.
    """
    prefer_channels_last(network)
    network.train()
    settings, rows = session.settings.autoencoder, torch.from_numpy(dataset.splits["train"])
    optimiser = torch.optim.Adam(network.parameters(), settings.learning_rate, fused=True)
    wrapped = session.set_up(network)
    noise = session.generator(PHASE, "noise")
    loop = Loop.over(
        session,
        PHASE,
        settings,
        rows,
        modules={"network": network},
        optimisers={"network": optimiser},
        generators={"noise": noise},
    )
    own = loss or _reconstruction(session)
    for _ in loop:
        (chosen,) = loop.batch()
        images = load_images(dataset, chosen, session)
        value = own(wrapped, images, noise)
        if loop.minimise(optimiser, value):
            loop.record(loss=value.item())
    network.eval()


def _reconstruction(session: Session) -> AutoencoderLoss:
    error = ReconstructionLoss(session)
    return lambda network, images, noise: error(network(images), images)


def obtain_autoencoder(session: Session, network: Autoencoder, dataset: ImageDataset) -> None:
    """Train an autoencoder, or take over the one of the run that the settings name."""
    source = session.settings.autoencoder.weights
    if source is None:
        train_autoencoder(session, network, dataset)
        return
    _, weights, origin = read_pretrained(source)
    for prefix in ("autoencoder.", "network."):  # what our model and the baselines call it
        if own := {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}:
            break
    try:
        network.load_state_dict(own)
    except RuntimeError as error:
        detail = str(error).splitlines()[-1].strip()
        raise ArtifactError(
            f"autoencoder.weights: the network in '{origin}' is another one: {detail}"
        ) from None


def measure_reconstruction(model: PathModel, dataset: ImageDataset) -> dict[str, float]:
    """Measure the mean squared error per pixel of held-out reconstructions."""
    return {"test_mse": reconstruction_error(model, dataset, held_out_rows(dataset))}


def load_images(
    dataset: ImageDataset, rows: np.ndarray | Tensor, session: Session
) -> Float[Tensor, "b c h w"]:
    """Bring a batch of images to the device in the layout convolutions like best."""
    images = dataset.batch(rows, device=session.device)
    return images.contiguous(memory_format=torch.channels_last)
