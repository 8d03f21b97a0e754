"""What a model must offer to be measured: ours and every baseline obey it."""

from typing import Protocol

from jaxtyping import Float
from torch import Tensor


class PathModel(Protocol):
    """Encodes images, decodes latents, and draws a path between two latents."""

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to latent points."""
        ...

    def decode(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Map latent points to images in [0, 1]."""
        ...

    def latent_path(
        self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], times: Float[Tensor, " t"]
    ) -> Float[Tensor, "b t d"]:
        """Follow the model's own path: at z0 for t = 0, near z1 for t = 1, beyond it after."""
        ...
