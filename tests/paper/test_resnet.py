from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from transop.data import DatasetMeta, ImageDataset
from transop.errors import UserError
from transop.pairs import extract_features
from transop_paper.published import sources
from transop_paper.resnet import ResNet18, load_imagenet_weights, resnet18


def test_the_network_has_the_published_number_of_parameters() -> None:
    network = ResNet18()
    assert sum(p.numel() for p in network.parameters()) == 11_689_512
    names = set(network.state_dict())
    assert {"conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias"} <= names
    assert not any("mean" in name and "running" not in name for name in names)


def test_features_come_before_the_last_layer() -> None:
    network = ResNet18(num_classes=3).eval()
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = network.features(images)
        assert features.shape == (2, 512)
        torch.testing.assert_close(network(images), network.fc(features))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_published_weights_load_unchanged(tmp_path: Path, suffix: str) -> None:
    source = ResNet18()
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch.save(source.state_dict(), path)
    else:
        save_file(source.state_dict(), path)
    loaded = load_imagenet_weights(path)
    assert not loaded.training
    for name, tensor in source.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name


def test_missing_unreadable_and_foreign_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"do not exist; download https://"):
        load_imagenet_weights(tmp_path / "none.pth")
    damaged = tmp_path / "damaged.pth"
    damaged.write_bytes(b"<html>not found</html>")
    with pytest.raises(UserError, match="cannot be read"):
        load_imagenet_weights(damaged)
    foreign = tmp_path / "foreign.pth"
    torch.save({"conv1.weight": torch.zeros(2)}, foreign)
    with pytest.raises(UserError, match="does not hold ResNet-18 weights"):
        load_imagenet_weights(foreign)


def test_features_for_pairs_come_from_a_weights_file(tmp_path):
    torch.manual_seed(0)
    torch.save(ResNet18().state_dict(), tmp_path / "resnet18.pth")
    extractor = resnet18(40, tmp_path / "resnet18.pth", tmp_path)
    assert extractor.key.startswith("resnet18/")
    rows = np.arange(4)
    noise = np.random.default_rng(0).integers(0, 256, (4, 1, 16, 16), np.uint8)
    dataset = ImageDataset(noise, None, {"train": rows}, DatasetMeta("noise", "made in a test"))
    found = extract_features(dataset, torch.arange(4), extractor)
    assert found.shape == (4, 512)


def test_other_weights_get_another_cache_key(tmp_path):
    keys = set()
    for seed in range(2):
        torch.manual_seed(seed)
        torch.save(ResNet18().state_dict(), tmp_path / f"resnet{seed}.pth")
        keys.add(resnet18(28, tmp_path / f"resnet{seed}.pth", tmp_path).key)
    assert len(keys) == 2


def test_without_network_the_remedy_of_resnet_is_named(monkeypatch, tmp_path):
    def offline(*args, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(sources, "mirror", offline)
    with pytest.raises(UserError, match=r"no route to host.*weights=.*transop\[perceptual\]"):
        resnet18(28, None, tmp_path)


def test_rubbish_in_place_of_resnet_weights_is_named(tmp_path):
    (tmp_path / "resnet18.pth").write_bytes(b"rubbish")
    with pytest.raises(UserError, match=r"resnet18\.pth"):
        resnet18(40, tmp_path / "resnet18.pth", tmp_path)
