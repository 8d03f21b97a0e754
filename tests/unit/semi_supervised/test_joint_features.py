import numpy as np
import pytest
import torch

from transop.data import load_dataset
from transop.semi_supervised import joint_features
from transop.semi_supervised.features import _principal


def correlated(n, width, rank, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(n, rank, generator=generator) * torch.logspace(0, -1, rank)
    return mixed @ torch.randn(rank, width, generator=generator)


@pytest.mark.parametrize(("n", "width"), [(200, 30), (20, 30)])
@pytest.mark.parametrize("whitening", [0.0, 1.0])
def test_components_of_many_and_of_few_images_keep_distances_or_have_variance_one(
    n, width, whitening
):
    table = correlated(n, width, 5)
    found = _principal(table, np.arange(n), 8, whitening=whitening)
    assert found.shape == (n, 5)  # there are no more directions
    if whitening:
        torch.testing.assert_close(found.square().mean(0), torch.ones(5), rtol=1e-3, atol=0)
    else:
        torch.testing.assert_close(
            torch.cdist(found, found), torch.cdist(table, table), rtol=1e-3, atol=2e-2
        )


def test_a_few_dozen_images_many_of_them_equal_have_features():
    images = np.random.default_rng(0).integers(0, 256, (9, 16, 16), np.uint8)
    dataset = load_dataset(images[np.arange(36) % 9])
    features = joint_features(dataset, None, np.arange(36))
    assert bool(features.isfinite().all())
    torch.testing.assert_close(features[:9], features[9:18], rtol=0, atol=1e-3)
    apart = torch.cdist(features[:9], features[:9]) + 9 * torch.eye(9)
    assert apart.min() > 0.1


def test_a_decomposition_that_fails_is_replaced(monkeypatch):
    table = correlated(200, 30, 5)
    before = _principal(table, np.arange(200), 3)

    def fail(matrix):
        raise torch.linalg.LinAlgError("repeated eigenvalues")

    monkeypatch.setattr(torch.linalg, "eigh", fail)
    after = _principal(table, np.arange(200), 3)
    torch.testing.assert_close(before.abs(), after.abs(), rtol=1e-3, atol=1e-3)
