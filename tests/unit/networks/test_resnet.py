from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from transop.errors import UserError
from transop.networks.resnet import ResNet18, load_imagenet_weights


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
