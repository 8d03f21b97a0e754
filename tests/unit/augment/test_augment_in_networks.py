"""The augmentation as part of a user's network, and in the processes of a DataLoader."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from transop.augment import Guard, TransportAugment
from transop.errors import UserError


@pytest.fixture
def judge():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 3))


def network(augment):
    return nn.Sequential(augment, nn.Flatten(), nn.Linear(256, 3))


def test_a_network_neither_trains_nor_stores_the_augmentation_in_it(model, judge):
    whole = network(TransportAugment(model, guard=Guard(judge)))
    assert [name for name, _ in whole.named_parameters()] == ["2.weight", "2.bias"]
    assert list(whole.state_dict()) == ["2.weight", "2.bias"]
    whole.load_state_dict(network(nn.Identity()).state_dict())


def test_training_a_network_leaves_model_and_guard_as_they_were(model, judge, images):
    whole = network(TransportAugment(model, guard=Guard(judge, threshold=0.0)))
    before = copy.deepcopy(dict(model.state_dict())), copy.deepcopy(dict(judge.state_dict()))
    whole.train()
    assert not model.training
    assert not judge.training
    optimiser = torch.optim.SGD(whole.parameters(), 1.0)
    whole(images).sum().backward()
    optimiser.step()
    for state, module in zip(before, (model, judge), strict=True):
        assert all(torch.equal(value, module.state_dict()[key]) for key, value in state.items())


def test_the_model_follows_the_network_to_another_device(model, monkeypatch, images):
    whole = network(TransportAugment(model))
    visited = []
    monkeypatch.setattr(type(model), "to", lambda self, place: visited.append(str(place)))
    whole.to("meta")
    with pytest.raises((UserError, NotImplementedError, RuntimeError)):
        whole(images)
    assert visited == ["meta"]


def test_a_model_that_was_moved_by_hand_stays_there(model, monkeypatch, images):
    augment = TransportAugment(model)
    visited = []
    monkeypatch.setattr(type(model), "to", lambda self, place: visited.append(str(place)))
    augment(images)
    assert visited == []


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_copy_goes_on_with_the_same_numbers(model, images, seeded, copied):
    augment = TransportAugment(model, generator=seeded(5))
    augment(images)
    again = copied(augment)
    assert torch.equal(again(images), augment(images))


class Pictures(Dataset):
    def __init__(self, augment):
        self.augment = augment

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.augment(torch.full((1, 16, 16), 0.5))


@pytest.mark.parametrize("with_generator", [True, False])
def test_spawned_workers_move_images_each_in_their_own_way(model, seeded, with_generator):
    augment = TransportAugment(model, generator=seeded() if with_generator else None)

    def load():
        start = torch.Generator().manual_seed(3)
        options = {"num_workers": 2, "multiprocessing_context": "spawn", "generator": start}
        return torch.cat(list(DataLoader(Pictures(augment), batch_size=4, **options)))

    first = load()
    assert len(first.flatten(1).unique(dim=0)) == 8
    assert torch.equal(first, load())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        list,
        lambda x: list(x.numpy()),
        lambda x: x.numpy()[::-1, :, ::-1],
        lambda x: x.numpy().astype(">f4"),
        lambda x: x.numpy().astype(np.longdouble),
        lambda x: x.double(),
        lambda x: x.expand(2, 6, 1, 16, 16)[1],
    ],
)
def test_arrays_and_lists_are_as_good_as_tensors(model, images, wrap):
    moved = TransportAugment(model, p=0.0)(wrap(images))
    expected = images.flip(0, 2) if isinstance(wrap(images), np.ndarray) else images
    if moved.flatten()[0] == images.flatten()[0]:
        expected = images
    torch.testing.assert_close(moved.float(), expected)
    assert TransportAugment(model)(wrap(images)).shape == images.shape
