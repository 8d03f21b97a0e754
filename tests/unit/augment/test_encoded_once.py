"""Folded networks inside the augmentation, and data sets that are encoded once."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from transop.augment import AugmentedDataset, Guard, TransportAugment
from transop.errors import UserError
from transop.networks import FoldedAutoencoder

LABELS = torch.tensor([3, 1, 4, 1, 5, 9])


def test_new_weights_are_used_at_the_next_call(model, images, seeded):
    augment = TransportAugment(model, generator=seeded())
    augment(images)
    with torch.no_grad():
        model.autoencoder.decoder[-2].bias += 0.5
        model.autoencoder.encoder[1].running_mean += 0.1
    again = augment(images, augment.params)
    coefficients = augment.params["coefficients"][:, 0]
    expected = model.decode(model.transport(coefficients, model.encode(images)))
    torch.testing.assert_close(again, expected, atol=1e-5, rtol=0)


def test_a_copy_of_the_networks_is_made_once(model, images, monkeypatch):
    made = []
    original = FoldedAutoencoder.__init__
    monkeypatch.setattr(
        FoldedAutoencoder, "__init__", lambda *given: (made.append(1), original(*given))[1]
    )
    augment = TransportAugment(model)
    for _ in range(3):
        augment.train()
        augment(images)
    assert len(made) == 1


def test_the_copy_is_neither_stored_nor_trained_nor_pickled(model, images):
    augment = TransportAugment(model)
    size = len(pickle.dumps(augment))
    augment(images)
    augment.params = None
    assert len(pickle.dumps(augment)) == size
    assert not list(augment.parameters())
    assert not augment.state_dict()


def test_a_stored_augmentation_gives_the_same_images(model, images):
    augment = TransportAugment(model, bfloat16=True, p=0.5)
    augment(images)
    file = io.BytesIO()
    torch.save(augment, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(again(images, augment.params), augment(images, augment.params))


def test_bfloat16_changes_pixels_by_little(model, images, seeded):
    short = TransportAugment(model, bfloat16=True, generator=seeded())
    moved = short(images)
    exact = TransportAugment(model)(images, short.params)
    assert moved.dtype == torch.float32
    assert 0 < (moved - exact).abs().max() < 0.03
    with pytest.raises(UserError, match="bfloat16"):
        TransportAugment(model, bfloat16="yes")


@pytest.mark.parametrize(
    "options", [{}, {"p": 0.5}, {"residual": 0.5}, {"n_steps": 2}, {"same_on_batch": True}]
)
def test_reading_a_data_set_is_augmenting_its_images(model, images, seeded, options):
    dataset = TransportAugment(model, generator=seeded(4), **options).for_dataset(images)
    augment = TransportAugment(model, generator=seeded(4), **options)
    rows = [4, 0, 0, -1]
    torch.testing.assert_close(dataset[rows], augment(images[rows]))
    assert torch.equal(dataset.augment.params["apply"], augment.params["apply"])
    torch.testing.assert_close(dataset[torch.tensor(3)], augment(images[3]))


def test_the_encoder_runs_once(model, images, monkeypatch):
    dataset = TransportAugment(model).for_dataset(images)
    monkeypatch.setattr(FoldedAutoencoder, "encode", None)
    first, second = dataset[[0, 1]], dataset[[0, 1]]
    assert not torch.equal(first, second)
    torch.testing.assert_close(dataset.latents, model.encode(images))


def test_bytes_are_as_good_as_floats(model, images, seeded):
    bytes_ = (images * 255).round().to(torch.uint8)
    read = TransportAugment(model, p=0.5, generator=seeded()).for_dataset(bytes_.numpy())
    floats = TransportAugment(model, p=0.5, generator=seeded()).for_dataset(bytes_ / 255)
    torch.testing.assert_close(read[range(6)], floats[range(6)])


def test_a_guard_is_asked_for_names_once(model, images, seeded):
    asked = []

    def judge(pictures):
        asked.append(len(pictures))
        return torch.tensor([[9.0, 0.0]]).expand(len(pictures), 2)

    dataset = TransportAugment(model, guard=Guard(judge)).for_dataset(images)
    assert asked == [6]
    dataset[[0, 1]]
    assert asked == [6, 2]


def test_what_a_guard_refuses_stays_the_image_it_was(model, images):
    def judge(pictures):
        return torch.tensor([[9.0, 0.0]]).expand(len(pictures), 2)

    augment = TransportAugment(model, guard=Guard(judge, attempts=1, shortenings=0))
    dataset = augment.for_dataset(images, torch.tensor([0, 1, 0, 1, 0, 1]))
    moved, labels = dataset[range(6)]
    assert torch.equal(moved[1::2], images[1::2])
    assert not torch.equal(moved[0], images[0])
    assert labels.tolist() == [0, 1] * 3
    assert augment.params["apply"].tolist() == [True, False] * 3


def test_a_guard_that_knows_no_labels_keeps_its_own_opinion(model, images):
    model.identity_facts = {"source": "graph", "n_communities": 3}
    dataset = TransportAugment(model, guard=0.0).for_dataset(images, LABELS)
    assert torch.equal(dataset[range(6)][1], LABELS)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_reads_images_with_their_labels(model, images, workers):
    dataset = TransportAugment(model).for_dataset(images, LABELS)
    options = {"num_workers": workers, "multiprocessing_context": "fork" if workers else None}
    rows = [
        *DataLoader(dataset, batch_size=4, **options),
        *DataLoader(dataset, sampler=BatchSampler(range(6), 4, False), batch_size=None, **options),
    ]
    assert [tuple(pictures.shape) for pictures, _ in rows] == [(4, 1, 16, 16), (2, 1, 16, 16)] * 2
    assert torch.cat([labels for _, labels in rows]).tolist() == LABELS.tolist() * 2


def test_spawned_workers_draw_their_own_numbers(model, images, seeded):
    dataset = TransportAugment(model, generator=seeded()).for_dataset(
        images[:1].expand(8, 1, 16, 16)
    )
    loader = DataLoader(
        dataset, batch_size=2, num_workers=2, multiprocessing_context="spawn", generator=seeded(1)
    )
    assert len(torch.cat(list(loader)).flatten(1).unique(dim=0)) == 8


def test_wrong_images_labels_and_indices_are_named(model, images):
    augment = TransportAugment(model)
    with pytest.raises(UserError, match="6 images but 2 labels"):
        augment.for_dataset(images, [1, 2])
    with pytest.raises(UserError, match=r"\(1, 16, 16\)"):
        augment.for_dataset(images[..., :8])
    with pytest.raises(UserError, match="at least one"):
        augment.for_dataset(images[:0])
    with pytest.raises(IndexError, match="6 images"):
        augment.for_dataset(images)[6]


def test_a_data_set_can_be_copied_and_is_public(model, images):
    dataset = copy.deepcopy(TransportAugment(model).for_dataset(images))
    assert isinstance(dataset, AugmentedDataset)
    assert len(dataset) == 6
    sampler = BatchSampler(RandomSampler(dataset), 3, drop_last=True)
    assert [len(batch) for batch in DataLoader(dataset, sampler=sampler, batch_size=None)] == [3, 3]


def test_modules_of_the_users_own_run_as_they_are(images):
    import transop

    model = transop.ManifoldAutoencoder.from_modules(
        nn.Sequential(nn.Flatten(), nn.Linear(256, 4)),
        nn.Sequential(nn.Linear(4, 256), nn.Sigmoid(), nn.Unflatten(1, (1, 16, 16))),
        images=images,
        n_operators=2,
    )
    dataset = TransportAugment(model).for_dataset(images)
    assert dataset[[0, 1]].shape == (2, 1, 16, 16)


def test_what_is_refused_often_gets_several_tries_together(model, images):
    asked = []

    def judge(points):
        asked.append(len(points))
        return torch.tensor([[0.0, 9.0]]).expand(len(points), 2)

    guard = Guard(judge, attempts=4, shortenings=2, domain="latent")
    augment = TransportAugment(model, guard=guard)
    augment(images, labels=torch.tensor([0, 1, 1, 1, 1, 1]))
    assert asked == [6, 1, 2, 1, 2]
    assert augment.params["draws"].tolist() == [7, 1, 1, 1, 1, 1]
