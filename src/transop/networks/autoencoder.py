"""The paper's autoencoders, each fixed by a name and five numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, pixel_shuffle

from transop.errors import UserError


@dataclass(frozen=True)
class AutoencoderShape:
    """Everything needed to build an autoencoder again: no code, no pickles."""

    name: str
    image_size: int
    channels: int
    latent_dimension: int
    width: int


class Autoencoder(nn.Module):
    """An encoder to raw latent vectors and a decoder back to images in [0, 1]."""

    def __init__(
        self, shape: AutoencoderShape, encoder: nn.Sequential, decoder: nn.Sequential
    ) -> None:
        super().__init__()
        self.shape = shape
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to raw latent vectors (not divided by any latent scale)."""
        latents: Tensor = self.encoder(images)
        return latents

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of one image: channels, height, width."""
        return (self.shape.channels, self.shape.image_size, self.shape.image_size)

    @property
    def has_decoder(self) -> bool:
        """Whether latents can be decoded; modules of the user's own may lack a decoder."""
        return self.decoder is not None

    def rest(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b w"] | None:
        """Give the part of the latents that operators leave alone: none here."""
        del images
        return None

    def decode(
        self, latents: Float[Tensor, "b d"], rest: Float[Tensor, "b w"] | None = None
    ) -> Float[Tensor, "b c h w"]:
        """Map raw latent vectors to images with values in [0, 1]; there is no rest here."""
        del rest
        images: Tensor = self.decoder(latents)
        return images

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """Encode and decode."""
        return self.decode(self.encode(images))

    @torch.no_grad()
    def shift_latents(self, offset: Float[Tensor, " d"]) -> None:
        """Add a constant to all latents, in place; what is decoded stays as it was.

        The last layer of every encoder and the first of every decoder here are linear, so their
        biases take the constant in, or the mean of the normalisation that stands for a bias.
        """
        last, first, second = self.encoder[-1], self.decoder[0], self.decoder[1]
        assert isinstance(last, nn.Linear)
        assert isinstance(first, nn.Linear)
        last.bias.add_(offset)
        if isinstance(second, nn.BatchNorm1d):
            assert second.running_mean is not None
            second.running_mean.add_(first.weight @ offset)
        else:
            first.bias.sub_(first.weight @ offset)

    def architecture(self) -> dict[str, Any]:
        """List the keyword arguments with which ``build_autoencoder`` builds this network."""
        return asdict(self.shape)


def mnist(shape: AutoencoderShape) -> Autoencoder:
    """Build the paper's MNIST and Fashion-MNIST autoencoder.

    At 28 pixels the third convolution leaves 4x4. The table's decoder grows 7 to 8, 14 and 28.

    Differs from the paper: the table is written for 28 pixels and 64 channels; here any multiple
    of four from 16 pixels and any width. Its two latent units are a misprint for the ten used.
    """
    size, w = shape.image_size, shape.width
    if size % 4 or size < 16:
        raise _wrong_size(shape, "a multiple of 4 from 16 on")
    quarter = size // 4
    return _assemble(
        shape,
        down=[(shape.channels, w, 4, 2, 1), (w, w, 4, 2, 1), (w, w, 4, 1, 0)],
        up=[(w, w, 4, 1, 1), (w, w, 4, 2, 2)],
        last=(4, 2, 1),
        sides=(quarter - 3, quarter),
    )


def celeba(shape: AutoencoderShape) -> Autoencoder:
    """Build the paper's CelebA autoencoder (64 pixels, three channels, width 32).

    Differs from the paper: where the table's batch-norm size contradicts the convolution before
    it, the convolution decides. Its 80,000 linear units are 128 maps of 25x25.
    """
    size, w = shape.image_size, shape.width
    if size % 2 or size < 32:
        raise _wrong_size(shape, "an even number from 32 on")
    side, start = size, (size - 14) // 2
    for kernel in (4, 4, 3, 4, 4):  # the five strided convolutions of the encoder
        side = (side + 2 - kernel) // 2 + 1
    return _assemble(
        shape,
        down=[
            (shape.channels, w, 4, 2, 1),
            (w, 2 * w, 4, 2, 1),
            (2 * w, 4 * w, 3, 2, 1),
            (4 * w, 8 * w, 3, 1, 1),
            (8 * w, 8 * w, 4, 2, 1),
            (8 * w, 4 * w, 4, 2, 1),
        ],
        up=[
            (4 * w, 8 * w, 3, 1, 0),
            (8 * w, 8 * w, 3, 1, 0),
            (8 * w, 8 * w, 3, 1, 1),
            (8 * w, 4 * w, 3, 1, 1),
            (4 * w, 4 * w, 3, 1, 0),
        ],
        last=(4, 2, 0),
        sides=(side, start),
    )


def conv32(shape: AutoencoderShape) -> Autoencoder:
    """Build an autoencoder for small natural images: three halvings, each refined by a 3x3."""
    size, w = shape.image_size, shape.width
    if size % 8 or size < 16:
        raise _wrong_size(shape, "a multiple of 8 from 16 on")
    return _assemble(
        shape,
        down=[
            (shape.channels, w, 4, 2, 1),
            (w, w, 3, 1, 1),
            (w, 2 * w, 4, 2, 1),
            (2 * w, 2 * w, 3, 1, 1),
            (2 * w, 4 * w, 4, 2, 1),
        ],
        up=[
            (4 * w, 2 * w, 4, 2, 1),
            (2 * w, 2 * w, 3, 1, 1),
            (2 * w, w, 4, 2, 1),
            (w, w, 3, 1, 1),
        ],
        last=(4, 2, 1),
        sides=(size // 8, size // 8),
    )


def conv(shape: AutoencoderShape) -> Autoencoder:
    """Build an autoencoder for any square size from 16 to 128, odd ones included.

    Halvings go on until at most 7 pixels are left; the decoder doubles back through the same
    sizes, adding the row that an odd size lost.
    """
    return _pyramid(shape, smallest=7, widest=4, hidden=None)


def deep(shape: AutoencoderShape) -> Autoencoder:
    """Build ``conv`` with a hidden layer on either side of the latents, and more maps inside.

    One linear map from a few pixels to the latents must read off position, shape and colour at
    once; with a layer between, small features survive that one map gives up. Halvings go on to at
    most 5 pixels and the maps double all the way: the coarse layers cost least.
    """
    return _pyramid(shape, smallest=5, widest=None, hidden=256)


AutoencoderBuilder = Callable[[AutoencoderShape], Autoencoder]

_Layer = tuple[int, int, int, int, int]  # channels in and out, kernel, stride, padding


def _assemble(
    shape: AutoencoderShape,
    *,
    down: list[_Layer],
    up: list[_Layer],
    last: tuple[int, int, int],
    sides: tuple[int, int],
) -> Autoencoder:
    """Put convolutions on either side of the latents, which read and write maps of two sides."""
    d, read, written = shape.latent_dimension, down[-1][1], up[0][0]
    encoder = nn.Sequential(
        *_layers(nn.Conv2d, down), nn.Flatten(), nn.Linear(read * sides[0] ** 2, d)
    )
    decoder = nn.Sequential(
        nn.Linear(d, written * sides[1] ** 2),
        nn.ReLU(),
        nn.Unflatten(1, (written, sides[1], sides[1])),
        *_layers(nn.ConvTranspose2d, up),
        LastUp(up[-1][1], shape.channels, *last),
        nn.Sigmoid(),
    )
    return Autoencoder(shape, encoder, decoder)


def _pyramid(
    shape: AutoencoderShape, *, smallest: int, widest: int | None, hidden: int | None
) -> Autoencoder:
    """Halve images until at most ``smallest`` pixels are left, and double back.

    Maps double with every halving, up to ``widest`` times the width if that is given; ``hidden``
    units stand on either side of the latents if that is given.
    """
    if not 16 <= shape.image_size <= 128:
        raise _wrong_size(shape, "from 16 to 128")
    sizes = [shape.image_size]
    while sizes[-1] > smallest:
        sizes.append(sizes[-1] // 2)
    stages = range(len(sizes) - 1)
    growth = [2**stage if widest is None else min(2**stage, widest) for stage in stages]
    maps = [shape.channels, *(shape.width * factor for factor in growth)]
    down = _layers(nn.Conv2d, [(maps[i], maps[i + 1], 4, 2, 1) for i in stages])
    back = [(maps[i + 1], maps[i], 4, 2, 1, sizes[i] % 2) for i in reversed(stages[1:])]
    up = _layers(nn.ConvTranspose2d, back)
    side, d, flat = sizes[-1], shape.latent_dimension, maps[-1] * sizes[-1] ** 2
    read: list[nn.Module]
    written: list[nn.Module]
    if hidden is None:
        read, written = [nn.Linear(flat, d)], [nn.Linear(d, flat), nn.ReLU()]
    else:
        read = [*_hidden(flat, hidden), nn.Linear(hidden, d)]
        written = [*_hidden(d, hidden), *_hidden(hidden, flat)]
    encoder = nn.Sequential(*down, nn.Flatten(), *read)
    decoder = nn.Sequential(
        *written,
        nn.Unflatten(1, (maps[-1], side, side)),
        *up,
        LastUp(maps[1], shape.channels, 4, 2, 1, sizes[0] % 2),
        nn.Sigmoid(),
    )
    return Autoencoder(shape, encoder, decoder)


class LastUp(nn.ConvTranspose2d):
    """A transposed convolution (kernel 4, stride 2) to an image: the same numbers, faster.

    Kernels for transposed convolutions compute many output channels side by side; an image has
    one or three. An ordinary convolution that gives every pixel of a cell as a channel of its own
    has more to do side by side. With gradients the layer stays as it is: rearranging the pixels
    costs more on the way back than it saves.
    """

    def forward(self, maps: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Write maps as an image."""
        even = maps.shape[-1] % 2 == 0 and maps.shape[-2] % 2 == 0
        if torch.is_grad_enabled() or not (even and self.has_cells and output_size is None):
            return super().forward(maps, output_size)
        return draw_cells(maps, *self.cells())

    @property
    def has_cells(self) -> bool:
        """Whether there is an ordinary convolution with the same numbers, for maps of even size."""
        return self.padding == (1, 1) and self.output_padding == (0, 0)

    def cells(self) -> tuple[Tensor, Tensor | None]:
        """Give weight and bias of the ordinary convolution (kernel 4, stride 2, padding 1).

        A cell has 4 x 4 pixels and reads 4 x 4 inputs. Its pixel r takes from input a the kernel's
        entry r + 3 - 2 a, or nothing where the kernel has no such entry.
        """
        places = torch.arange(4, device=self.weight.device)
        entries = places[:, None] + 3 - 2 * places
        split = pad(self.weight, (3, 3, 3, 3))[:, :, entries + 3][..., entries + 3]
        weight = split.permute(1, 2, 4, 0, 3, 5).flatten(0, 2)
        return weight, None if self.bias is None else self.bias.repeat_interleave(16)


def draw_cells(maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Write maps of even size as an image, with what `LastUp.cells` gives."""
    return pixel_shuffle(conv2d(maps, weight, bias, stride=2, padding=1).contiguous(), 4)


def _hidden(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]


def _layers(
    kind: Callable[..., nn.Conv2d | nn.ConvTranspose2d], numbers: Sequence[tuple[int, ...]]
) -> list[nn.Module]:
    """Follow convolutions by batch normalisation, and keep their biases as they are.

    Normalisation takes any bias away again, so the bias has no gradient but rounding errors,
    and Adam would follow those: no two machines would give the same running means.
    """
    layers: list[nn.Module] = []
    for arguments in numbers:
        convolution = kind(*arguments)
        assert convolution.bias is not None
        convolution.bias.requires_grad_(False)
        layers += [convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()]
    return layers


def _wrong_size(shape: AutoencoderShape, valid: str) -> UserError:
    return UserError(
        f"image_size = {shape.image_size}: autoencoder '{shape.name}' takes {valid}; "
        "resize the images (data.image_size) or choose network 'conv', which takes 16 to 128"
    )
