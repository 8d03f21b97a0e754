"""The same seed on the same machine gives the same files, for every phase."""

import numpy as np
import pytest
import torch

from transop.artifacts import RunFolder, save_state
from transop.config import PHASES, load_settings
from transop.data import load_dataset
from transop.training import train

SETTINGS = [
    "autoencoder.network=conv",
    "autoencoder.width=4",
    "autoencoder.latent_dimension=4",
    "autoencoder.batch_size=32",
    "pairs.strategy=perceptual",
    "operators.n_operators=3",
    "operators.batch_size=32",
    "fine_tuning.batch_size=32",
    "fine_tuning.network_steps=1",
    "fine_tuning.operator_steps=1",
    "coefficient_encoder.batch_size=32",
    "coefficient_encoder.hidden=[8]",
    "coefficient_encoder.distil_samples=1000",
    *(f"{phase}.epochs=1" for phase in PHASES),
]


@pytest.fixture(scope="module")
def dataset():
    pixels = np.random.default_rng(0).integers(0, 256, (80, 16, 16), np.uint8)
    return load_dataset(pixels, labels=np.arange(80) % 2)


def model_bytes(dataset, folder, monkeypatch, seed):
    monkeypatch.setenv("TRANSOP_CACHE", str(folder / "cache"))  # features are computed each time
    settings = load_settings("demo", [*SETTINGS, f"runtime.seed={seed}"])
    model = train(settings, RunFolder(folder), dataset=dataset)
    assert model.phases == PHASES
    return (folder / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_file_and_another_seed_another(dataset, tmp_path, monkeypatch):
    one = model_bytes(dataset, tmp_path / "one", monkeypatch, seed=1)
    torch.rand(3)  # whatever the caller drew before must not matter
    np.random.default_rng().random()
    assert model_bytes(dataset, tmp_path / "again", monkeypatch, seed=1) == one
    assert model_bytes(dataset, tmp_path / "other", monkeypatch, seed=2) != one


def test_equal_states_are_equal_files_however_their_notes_were_ordered(tmp_path, monkeypatch):
    state = {"x": torch.arange(5.0), "step": 3}
    save_state(tmp_path / "one", state, kind="checkpoint")
    shuffled = _with_notes_reversed(monkeypatch)
    save_state(tmp_path / "two", state, kind="checkpoint")
    assert shuffled == [True]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def _with_notes_reversed(monkeypatch):
    """Let safetensors write its notes in the opposite order, as another process may."""
    import json

    from transop.artifacts import state as artifacts

    save, called = artifacts.save, []

    def save_reversed(tensors, metadata):
        content = save(tensors, metadata=metadata)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        notes = dict(sorted(header["__metadata__"].items(), reverse=True))
        text = json.dumps({**header, "__metadata__": notes}).encode()
        called.append(True)
        return len(text).to_bytes(8, "little") + text + content[8 + length :]

    monkeypatch.setattr(artifacts, "save", save_reversed)
    return called
