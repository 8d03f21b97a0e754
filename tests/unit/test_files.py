"""Only regular files are opened: pipes, devices, folders and process folders are refused."""

import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transop.artifacts import load_state, read_json, write_atomically
from transop.config import load_settings
from transop.data import load_dataset
from transop.errors import ArtifactError, DataError, SettingsError, UserError
from transop.files import open_regular, read_regular, require_regular
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.pairs import build_pairs
from transop_paper.resnet import load_imagenet_weights

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


def within_seconds(action, seconds=20.0):
    """Run something that must not hang; its error is raised here."""
    outcome: list[BaseException | None] = []

    def run():
        try:
            action()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, "it hangs"
    if outcome[0] is not None:
        raise outcome[0]


def odd_file(kind: str, path: Path) -> Path:
    """Make something at a path that is no regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"device": "/dev/urandom", "process": "/proc/self/environ"}[kind])
    return path


KINDS = {
    "pipe": "a named pipe, not a regular file",
    "device": "a device, not a regular file",
    "process": "in a folder of running processes",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_by_name(tmp_path, kind):
    path = odd_file(kind, tmp_path / "odd.png")
    for action in (open_regular, require_regular, read_regular):
        with pytest.raises(OSError, match=KINDS[kind]) as caught:
            within_seconds(lambda action=action: action(path))
        assert "odd.png" in str(caught.value)


def test_a_folder_and_a_file_that_is_too_long_are_refused(tmp_path):
    with pytest.raises(OSError, match=r"folder|directory"):
        open_regular(tmp_path)
    (tmp_path / "long").write_bytes(bytes(100))
    assert read_regular(tmp_path / "long", most_bytes=100) == bytes(100)
    with pytest.raises(OSError, match="100 bytes are more than 99"):
        read_regular(tmp_path / "long", most_bytes=99)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_never_written_over_what_is_no_regular_file(tmp_path, kind):
    path = odd_file(kind, tmp_path / "odd.html")
    before = (path.lstat().st_ino, path.lstat().st_mode, path.stat().st_ino)
    with pytest.raises(ArtifactError, match=KINDS[kind]) as caught:
        write_atomically(path, b"a report")
    assert "odd.html" in str(caught.value)
    assert (path.lstat().st_ino, path.lstat().st_mode, path.stat().st_ino) == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_an_ordinary_file_is_followed(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "link") == b"content"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".zip", ".npz", ".npy"])
def test_an_odd_file_as_data_set_is_one_line(tmp_path, kind, ending):
    path = odd_file(kind, tmp_path / f"odd{ending}")
    with pytest.raises(DataError, match=KINDS[kind]) as caught:
        within_seconds(lambda: load_dataset(path))
    assert f"odd{ending}" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_file_among_images_is_left_out_with_its_name(tmp_path, kind):
    for number in range(12):
        Image.new("L", (16, 16), 20 * number).save(tmp_path / f"{number}.png")
    odd_file(kind, tmp_path / "odd.png")
    found = []
    within_seconds(lambda: found.append(load_dataset(tmp_path)))
    assert len(found[0]) == 12
    assert any("odd.png" in note and KINDS[kind] in note for note in found[0].meta.notes)


def test_a_link_into_a_process_folder_is_not_entered(tmp_path):
    for number in range(10):
        Image.new("L", (16, 16), 20 * number).save(tmp_path / f"{number}.png")
    (tmp_path / "link").symlink_to("/proc/self")
    found = []
    within_seconds(lambda: found.append(load_dataset(tmp_path)))
    assert len(found[0]) == 10


@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_file_as_recipe_is_one_line(tmp_path, kind):
    path = odd_file(kind, tmp_path / "odd.toml")
    with pytest.raises(SettingsError, match=KINDS[kind]):
        within_seconds(lambda: load_settings(path))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".csv", ".npz", ".npy"])
def test_odd_files_as_given_pairs_are_one_line(tmp_path, kind, ending):
    path = odd_file(kind, tmp_path / f"odd{ending}")
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    dataset = load_dataset(images)
    with pytest.raises(DataError, match=KINDS[kind]):
        within_seconds(lambda: build_pairs(dataset, "given", given=path))


@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_as_weights_and_artifacts_are_one_line(tmp_path, kind):
    path = odd_file(kind, tmp_path / "odd.safetensors")
    for action, error in (
        (lambda: load_state(path, kind="model"), ArtifactError),
        (lambda: read_json(path), ArtifactError),
        (lambda: load_imagenet_weights(path), UserError),
        (lambda: load_efficientnet_lite0(path), UserError),
    ):
        with pytest.raises(error, match=r"odd\.safetensors"):
            within_seconds(action)


@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_in_mnists_and_celebas_layout_are_one_line(tmp_path, kind):
    idx = tmp_path / "idx"
    idx.mkdir()
    odd_file(kind, idx / "train-images-idx3-ubyte")
    celeba = tmp_path / "celeba"
    (celeba / "img_align_celeba").mkdir(parents=True)
    Image.new("L", (8, 8)).save(celeba / "img_align_celeba" / "000001.jpg")
    odd_file(kind, celeba / "list_attr_celeba.txt")
    for folder in (idx, celeba):
        with pytest.raises(DataError, match=KINDS[kind]):
            within_seconds(lambda folder=folder: load_dataset(folder))


def test_a_repeated_array_of_an_npz_is_refused(tmp_path):
    path = tmp_path / "twice.npz"
    np.savez(path, images=np.zeros((20, 8, 8), np.uint8))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("images.npy", archive.read("images.npy"))
    with pytest.raises(DataError, match="holds the array 'images' twice"):
        load_dataset(path)
