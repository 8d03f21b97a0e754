import pytest
import torch

from transop.networks import LeNet
from transop_paper.scarce import fast_lenet


@pytest.mark.parametrize("side", [16, 18, 28])
def test_the_fast_network_is_lenet(side, monkeypatch):
    monkeypatch.setattr(fast_lenet, "IN_HALF", False)
    shape = {"image_size": side, "channels": 1, "n_classes": 3}
    plain, fast = LeNet(**shape), fast_lenet.FastLeNet(**shape)
    fast.load_state_dict(plain.state_dict())
    images = torch.rand(5, 1, side, side, generator=torch.Generator().manual_seed(0))
    for network in (plain, fast):
        network(images).square().sum().backward()
    torch.testing.assert_close(fast(images), plain(images))
    for one, other in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)
