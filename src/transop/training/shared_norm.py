"""Batch normalisation over the batches of all processes together.

torch's own synchronised layer runs on CUDA only; this one runs wherever the processes can add up
tensors, and is the ordinary layer outside training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.modules.batchnorm import _BatchNorm


def _total(value: Tensor) -> Tensor:
    """Add up a tensor over processes; so is its gradient, as every process used the sum."""
    total: Tensor = all_reduce(value)  # type: ignore[no-untyped-call]
    return total


class SharedBatchNorm(_BatchNorm):
    """Normalises by mean and variance of the whole batch, wherever its rows are."""

    @classmethod
    def like(cls, layer: _BatchNorm) -> SharedBatchNorm:
        """Take over the weights, statistics and settings of an ordinary layer."""
        shared = cls(layer.num_features, layer.eps, layer.momentum, layer.affine)
        shared.weight, shared.bias = layer.weight, layer.bias
        shared._buffers.update(layer._buffers)
        return shared.train(layer.training)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise; in training, with one more round of sums than alone."""
        if not self.training:
            return super().forward(input)
        axes = [axis for axis in range(input.ndim) if axis != 1]
        shape = [1, -1, *(1 for _ in axes[1:])]
        count = input.new_tensor([input.numel() / input.shape[1]])
        sums = _total(torch.cat([input.sum(axes), count]))
        n, mean = sums[-1].detach(), sums[:-1] / sums[-1].detach()
        centred = input - mean.reshape(shape)
        variance = _total(centred.square().sum(axes)) / n
        self._remember(mean.detach(), variance.detach() * n / (n - 1).clamp_min(1))
        scale = self.weight / (variance + self.eps).sqrt()
        normalised: Tensor = centred * scale.reshape(shape) + self.bias.reshape(shape)
        return normalised

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        momentum = self.momentum or 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any number of axes: the layer replaces those for one, two and three."""


def share_batch_norm(module: nn.Module) -> None:
    """Replace the batch normalisation inside a module, in place; weights keep their names."""
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, SharedBatchNorm):
            setattr(module, name, SharedBatchNorm.like(child))
        else:
            share_batch_norm(child)
