"""LeNet-5 trained by Adam on the CPU: a compiled way, and torch's, with the same result.

The compiled way takes one image at a time through the convolutions, eight filters to a register,
and on the way back visits only the places that pooling and ReLU let through. It runs on one thread,
because trainings run side by side.
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from transop.inference import _lanes
from transop.inference._sources import digest_sources
from transop.networks import LeNet, prefer_channels_last
from transop_paper.scarce import _convolution_lanes, _dense_lanes, _lenet_lanes, _lenet_rooms
from transop_paper.scarce._lenet_lanes import take_steps
from transop_paper.scarce._lenet_rooms import Rooms, arrange_rooms, place_parameters

Array = NDArray[Any]

_SOURCES = (_lanes, _lenet_rooms, _convolution_lanes, _dense_lanes, _lenet_lanes)
_CACHE_LINE = 64

_log = logging.getLogger(__name__)


class TorchTrainer:
    """Trains with torch's layers and optimiser.

    Args:
        network: starting point, changed in place.
        batch_size: images per step.
        weight_decay: of Adam.
    """

    def __init__(self, network: LeNet, *, batch_size: int, weight_decay: float) -> None:
        prefer_channels_last(network)
        self._network, self._batch_size = network, batch_size
        self._optimiser = torch.optim.Adam(
            network.parameters(), weight_decay=weight_decay, fused=True
        )

    def train(
        self, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"], rates: Sequence[float]
    ) -> list[float]:
        """Take one step per learning rate, each on the next images; give the losses."""
        losses = []
        batches = zip(
            rates,
            torch.split(images, self._batch_size),
            torch.split(labels, self._batch_size),
            strict=True,
        )
        for rate, batch, truth in batches:
            for group in self._optimiser.param_groups:
                group["lr"] = rate
            self._optimiser.zero_grad()
            loss = cross_entropy(self._network(batch), truth)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()
            losses.append(float(loss.detach()))
        return losses

    def finish(self) -> LeNet:
        """Give the trained network, ready for use."""
        return self._network.eval()


def _make_entry(source_digest: int) -> Any:
    @njit(cache=True, nogil=True, error_model="numpy")
    def train_batches(
        ws: Array,
        rooms: Rooms,
        places: Array,
        images: Array,
        labels: Array,
        rates: Array,
        losses: Array,
        weight_decay: float,
        n_done: int,
    ) -> int:
        take_steps(ws, rooms, places, images, labels, rates, losses, weight_decay, n_done)
        return source_digest

    return train_batches


_train_batches = _make_entry(digest_sources(_SOURCES))


class LanesTrainer:
    """Trains with compiled code on one thread, several times as fast as torch.

    Results equal torch's up to rounding. The network must hold float32 numbers on the CPU.

    Args:
        network: starting point; gets the trained weights at the end.
        image_size: side of the images.
        batch_size: images per step.
        weight_decay: of Adam.
    """

    def __init__(
        self, network: LeNet, *, image_size: int, batch_size: int, weight_decay: float
    ) -> None:
        shapes = [parameter.shape for parameter in network.parameters()]
        self._network, self._weight_decay, self._n_done = network, weight_decay, 0
        self._rooms = arrange_rooms(
            size=image_size, channels=shapes[0][1], n_classes=shapes[-1][0], batch=batch_size
        )
        self._parameter_places = place_parameters(self._rooms)
        self._workspace = _clean_memory(self._rooms.total)
        self._places = np.empty(self._rooms.convolution1.pooled**2, np.int64)
        for parameter, places in zip(network.parameters(), self._parameter_places, strict=True):
            self._workspace[places] = parameter.detach().numpy()

    def train(
        self, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"], rates: Sequence[float]
    ) -> list[float]:
        """Take one step per learning rate, each on the next images; give the losses."""
        if not _train_batches.signatures:
            _log.info("loading the training kernel (compiled once per machine and version)")
        losses = np.empty(len(rates))
        _train_batches(
            self._workspace,
            self._rooms,
            self._places,
            images.contiguous().numpy(),
            labels.contiguous().numpy(),
            np.asarray(rates, np.float64),
            losses,
            self._weight_decay,
            self._n_done,
        )
        self._n_done += len(rates)
        return losses.tolist()

    def gradients(self) -> list[Array]:
        """Give the loss's gradient of the last step, in the order of the network's parameters."""
        gradient = self._workspace[self._rooms.gradient :]
        return [gradient[places] for places in self._parameter_places]

    def finish(self) -> LeNet:
        """Give the trained network, ready for use."""
        parameters = self._network.parameters()
        with torch.no_grad():
            for parameter, places in zip(parameters, self._parameter_places, strict=True):
                parameter.copy_(torch.from_numpy(self._workspace[places]))
        return self._network.eval()


def start_training(
    network: LeNet, *, image_size: int, batch_size: int, weight_decay: float
) -> LanesTrainer | TorchTrainer:
    """Choose how to train a network: compiled where it holds float32 numbers on the CPU.

    Args:
        network: starting point, not to be used before training has finished.
        image_size: side of the images.
        batch_size: images per step.
        weight_decay: of Adam.
    """
    weights = next(network.parameters())
    if weights.dtype == torch.float32 and weights.device.type == "cpu":
        return LanesTrainer(
            network, image_size=image_size, batch_size=batch_size, weight_decay=weight_decay
        )
    return TorchTrainer(network, batch_size=batch_size, weight_decay=weight_decay)


def _clean_memory(n: int) -> Array:
    """Give zeros that start on a cache line, so that registers do not straddle lines."""
    raw = np.zeros(n + _CACHE_LINE // 4, np.float32)
    offset = (-raw.ctypes.data % _CACHE_LINE) // 4
    return raw[offset : offset + n]
