from pathlib import Path

import numpy as np
import pytest
import torch

from transop.data import load_dataset
from transop.errors import DataError
from transop_paper.celeba import CELEBA_ATTRIBUTES, SIXTEEN_ATTRIBUTES
from transop_paper.faces import dataset as faces_module
from transop_paper.faces import generate_faces, write_faces
from transop_paper.faces.dataset import face_attributes
from transop_paper.faces.drawing import (
    FACTOR_NAMES,
    FACTORS,
    Factor,
    draw_faces,
    neutral_face,
    portrait,
    sample_factors,
)
from transop_paper.faces.drawing.easel import Window


def traverse(factor: Factor, n_steps: int, start: torch.Tensor | None = None) -> torch.Tensor:
    """Move one factor over its range, all others at rest."""
    rows = (neutral_face() if start is None else start).repeat(n_steps, 1)
    rows[:, FACTOR_NAMES.index(factor.name)] = torch.linspace(factor.low, factor.high, n_steps)
    return rows


def with_factors(**values: float) -> np.ndarray:
    row = neutral_face()
    for name, value in values.items():
        row[FACTOR_NAMES.index(name)] = value
    return row[None].numpy()


def holds(row: np.ndarray, name: str) -> bool:
    return bool(face_attributes(row)[0, CELEBA_ATTRIBUTES.index(name)] == 1)


@pytest.mark.parametrize("factor", FACTORS, ids=lambda factor: factor.name)
def test_every_factor_changes_the_picture_in_small_steps(factor: Factor) -> None:
    pictures = draw_faces(traverse(factor, 81), 32)
    steps = (pictures[1:] - pictures[:-1]).abs().mean(dim=(1, 2, 3))
    assert (pictures - pictures[:1]).abs().max() > 0.05  # something moves
    assert steps.max() < 0.015  # and nothing jumps
    assert (pictures[1:] - pictures[:-1]).abs().max() < 0.3


@pytest.mark.parametrize("factor", [f for f in FACTORS if f.periodic], ids=lambda f: f.name)
def test_hues_go_round_a_circle(factor: Factor) -> None:
    pictures = draw_faces(traverse(factor, 9), 32)
    torch.testing.assert_close(pictures[0], pictures[-1], atol=1e-5, rtol=0)
    assert (pictures[4] - pictures[0]).abs().max() > 0.1


def test_no_layer_paints_outside_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    typical = sample_factors(48, generator=generator)
    low, high = (torch.tensor([getattr(f, end) for f in FACTORS]) for end in ("low", "high"))
    extreme = torch.where(torch.rand(typical.shape, generator=generator) < 0.5, low, high)
    rows = torch.cat([typical, extreme])
    windowed = draw_faces(rows, 48)
    whole = Window(-9.0, 9.0, -9.0, 9.0)
    monkeypatch.setattr(portrait, "LAYERS", tuple((p, whole) for p, _ in portrait.LAYERS))
    torch.testing.assert_close(windowed, draw_faces(rows, 48), atol=2e-3, rtol=0)


def test_a_small_picture_is_a_reduced_large_one() -> None:
    rows = sample_factors(8, generator=torch.Generator().manual_seed(2))
    small, large = draw_faces(rows, 64), draw_faces(rows, 256)
    reduced = torch.nn.functional.avg_pool2d(large, 4)
    assert (small - reduced).abs().mean() < 0.01


def test_celebas_own_shape_shows_the_square_picture_in_its_middle() -> None:
    row = neutral_face()[None]
    tall = draw_faces(row, (218, 178))
    torch.testing.assert_close(tall[:, :, 20:198], draw_faces(row, 178), atol=1e-4, rtol=0)


def test_the_same_seed_gives_the_same_faces() -> None:
    first, again = (generate_faces(20, seed=3, image_size=32) for _ in range(2))
    other = generate_faces(20, seed=4, image_size=32)
    assert np.array_equal(first.images, again.images)
    assert first.content_hash() == again.content_hash() != other.content_hash()
    assert {name: len(rows) for name, rows in first.splits.items()} == {
        "train": 16,
        "validation": 2,
        "test": 2,
    }


def test_attributes_follow_the_factors() -> None:
    assert holds(with_factors(hat=1.0), "Wearing_Hat")
    assert holds(with_factors(sunglasses=0.9), "Eyeglasses")
    assert holds(with_factors(hair_lightness=0.9), "Blond_Hair")
    assert not holds(with_factors(hair_lightness=0.9, hair_grayness=0.9), "Blond_Hair")
    assert not holds(with_factors(hair_lightness=0.9, baldness=0.9), "Blond_Hair")
    assert holds(with_factors(baldness=0.9), "Bald")
    assert not holds(with_factors(baldness=0.9, hat=1.0), "Bald")  # the hat hides it
    assert holds(with_factors(beard=0.3), "5_o_Clock_Shadow")
    assert not holds(with_factors(beard=0.9), "No_Beard")


def test_sixteen_attributes_vary_and_the_others_are_absent() -> None:
    factors = sample_factors(4000, generator=torch.Generator().manual_seed(0)).numpy()
    shares = dict(zip(CELEBA_ATTRIBUTES, (face_attributes(factors) == 1).mean(0), strict=True))
    for name in CELEBA_ATTRIBUTES:
        if name in SIXTEEN_ATTRIBUTES:
            assert 0.08 < shares[name] < 0.65, name
        else:
            assert shares[name] == 0.0, name


def test_faces_written_to_disk_come_back_through_the_celeba_reader(tmp_path: Path) -> None:
    written = write_faces(tmp_path / "out", 30, seed=5, size=32)
    assert sorted(path.name for path in written.iterdir()) == [
        "factors.npz",
        "img_align_celeba",
        "list_attr_celeba.txt",
        "list_eval_partition.txt",
    ]
    read = load_dataset("celeba", path=written, image_size=32, cache_dir=tmp_path / "cache")
    drawn = generate_faces(30, seed=5, image_size=32)
    difference = read.images.astype(int) - drawn.images.astype(int)
    assert np.abs(difference).mean() < 3.0  # JPEG
    assert np.array_equal(read.attributes, drawn.attributes)
    assert np.array_equal(read.factors, drawn.factors)
    assert read.meta.factor_names == FACTOR_NAMES
    assert all(np.array_equal(read.splits[name], drawn.splits[name]) for name in drawn.splits)


def test_writing_into_a_folder_with_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(DataError, match="is not empty"):
        write_faces(tmp_path, 3)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_loaded_faces_are_drawn_once_and_then_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_dataset("faces", n_images=20, image_size=32, cache_dir=tmp_path)
    assert np.array_equal(first.images, generate_faces(20, image_size=32).images)

    def refuse(*_: object) -> None:
        raise AssertionError("drawn again")

    monkeypatch.setattr(faces_module, "draw_faces", refuse)
    again = load_dataset("faces", n_images=20, image_size=32, cache_dir=tmp_path)
    assert isinstance(again.images, np.memmap)
    assert np.array_equal(first.images, again.images)
    assert again.meta.attribute_names == CELEBA_ATTRIBUTES


@pytest.mark.parametrize("n_images", [0, -3, 2.5, "many"])
def test_an_impossible_number_of_faces_is_named(n_images: object, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="n_images="):
        load_dataset("faces", n_images=n_images, cache_dir=tmp_path)
