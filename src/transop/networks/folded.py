"""An autoencoder that only has to compute: the same numbers as the one it is made from, faster."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu_
from torch.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval

from transop.networks.autoencoder import Autoencoder, LastUp, draw_cells

# Rows through a network at once. Larger chunks leave the cache, and the system hands memory for
# their maps out anew every time, which can take longer than the computation.
_CHUNK = 128


def in_chunks(function: Callable[[Tensor], Tensor], inputs: Tensor, n_rows: int = _CHUNK) -> Tensor:
    """Apply a network to a few rows at a time, images laid out channels-last."""
    outputs = []
    for start in range(0, max(1, len(inputs)), n_rows):
        chunk = inputs[start : start + n_rows]
        if chunk.ndim == 4:
            chunk = chunk.contiguous(memory_format=torch.channels_last)
        outputs.append(function(chunk).contiguous())
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


class FoldedAutoencoder:
    """A copy of an autoencoder in evaluation mode, with batch normalisation inside the weights.

    It agrees with the original to rounding: 1e-5 in float32, about 0.02 of the range of pixels in
    bfloat16. Weights are copied when it is built; `is_current` says whether they still agree.
    It is no module: it is not trained, stored or moved with whoever holds it.
    """

    def __init__(self, network: Autoencoder, dtype: torch.dtype | None = None) -> None:
        """Copy and fold a network.

        Args:
            network: one of our own autoencoders, on a CPU.
            dtype: what to compute in; the type of the weights if left out.
        """
        self._weights = [weight.detach().clone() for weight in _weights(network)]
        self._given = self._weights[0].dtype
        self._used = self._given if dtype is None else dtype
        # Half the bytes for a number: twice the rows fit into the cache.
        self._n_rows = _CHUNK * self._given.itemsize // self._used.itemsize
        self._encoder = _fold(network.encoder).to(self._used)
        self._decoder = _fold(network.decoder).to(self._used)

    @staticmethod
    def is_possible(network: Autoencoder) -> bool:
        """Say whether a network can be folded: our own kinds can, on a CPU."""
        own = type(network) is Autoencoder
        return own and all(weight.device.type == "cpu" for weight in network.parameters())

    def is_current(self, network: Autoencoder) -> bool:
        """Say whether a network still has the weights this copy was made from."""
        pairs = zip(self._weights, _weights(network), strict=True)
        return all(old.dtype == new.dtype and torch.equal(old, new) for old, new in pairs)

    @torch.no_grad()
    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to raw latent vectors."""
        latents = in_chunks(lambda chunk: self._encoder(chunk.to(self._used)), images, self._n_rows)
        return latents.to(self._given)

    @torch.no_grad()
    def decode(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Map raw latent vectors to images with values in [0, 1]."""
        raw = latents.to(self._used)
        return in_chunks(lambda chunk: self._decoder(chunk).to(self._given), raw, self._n_rows)


def _weights(network: nn.Module) -> list[Tensor]:
    """List what a result depends on: parameters, and the statistics of normalisation."""
    return [*network.parameters(), *network.buffers()]


def _fold(layers: nn.Sequential) -> nn.Sequential:
    """Copy layers, each normalisation multiplied into the layer before it."""
    folded: list[nn.Module] = []
    for layer in layers:
        match layer:
            case nn.BatchNorm2d():
                last = folded[-1]
                assert isinstance(last, nn.Conv2d | nn.ConvTranspose2d)
                transposed = isinstance(last, nn.ConvTranspose2d)
                folded[-1] = fuse_conv_bn_eval(last, layer, transpose=transposed)
            case nn.BatchNorm1d():
                last = folded[-1]
                assert isinstance(last, nn.Linear)
                folded[-1] = fuse_linear_bn_eval(last, layer)
            case LastUp() if layer.has_cells:
                folded.append(_Cells(layer))
            case nn.Unflatten():
                _write_channels_last(folded[-2], layer)
                folded.append(_Unflatten(layer))
            case nn.ReLU():
                folded.append(_ReLU())
            case _:
                folded.append(deepcopy(layer).eval())
    result = nn.Sequential(*folded).requires_grad_(False)
    return result.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def _write_channels_last(linear: nn.Module, maps: nn.Unflatten) -> None:
    """Sort the outputs of a linear layer so that all channels of a pixel are neighbours."""
    assert isinstance(linear, nn.Linear)
    order = torch.arange(linear.out_features).view(maps.unflattened_size)
    order = order.permute(1, 2, 0).flatten()
    linear.weight.data = linear.weight[order]
    linear.bias.data = linear.bias[order]


class _Unflatten(nn.Module):
    """Makes maps of rows that `_write_channels_last` has sorted."""

    def __init__(self, maps: nn.Unflatten) -> None:
        super().__init__()
        channels, height, width = maps.unflattened_size
        self._shape = (height, width, channels)

    def forward(self, rows: Tensor) -> Tensor:
        return rows.view(len(rows), *self._shape).permute(0, 3, 1, 2)


class _Cells(nn.Module):
    """The last layer with the weights of its ordinary convolution ready to use."""

    def __init__(self, layer: LastUp) -> None:
        super().__init__()
        self._layer = deepcopy(layer)
        weight, bias = layer.cells()
        self._weight = nn.Parameter(weight)
        self._bias = None if bias is None else nn.Parameter(bias)

    def forward(self, maps: Tensor) -> Tensor:
        if maps.shape[-1] % 2 or maps.shape[-2] % 2:
            return self._layer(maps)  # type: ignore[no-any-return]
        return draw_cells(maps, self._weight, self._bias)


class _ReLU(nn.Module):
    """Sets negative numbers to zero, in place."""

    def forward(self, values: Tensor) -> Tensor:
        if values.dtype != torch.bfloat16:
            return relu_(values)
        # Negative floats are negative as integers too, and for those torch's kernel is six times
        # as fast.
        values.view(torch.int16).clamp_(min=0)
        return values
