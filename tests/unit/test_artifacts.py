import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from transop.artifacts import (
    RunFolder,
    describe_environment,
    load_state,
    save_state,
    write_atomically,
)
from transop.errors import ArtifactError


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path / "run")


def optimiser_state():
    layer = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    return layer, optimiser


def test_a_nested_state_comes_back_as_it_was(tmp_path):
    layer, optimiser = optimiser_state()
    state = {
        "model": layer.state_dict(),
        "optimiser": optimiser.state_dict(),
        "step": 3,
        "nothing": None,
        "pair": (1, "a"),
        "rng": torch.get_rng_state(),
    }
    save_state(tmp_path / "s.safetensors", state, kind="checkpoint")
    back = load_state(tmp_path / "s.safetensors", kind="checkpoint")
    assert back["pair"] == (1, "a")
    assert back["step"] == 3
    assert torch.equal(back["model"]["weight"], layer.weight)
    assert torch.equal(back["rng"], state["rng"])
    optimiser.load_state_dict(back["optimiser"])


@given(cut=st.floats(0, 0.999))
def test_a_truncated_file_is_named_in_the_error(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("t") / "s.safetensors"
    save_state(path, {"x": torch.arange(50.0)}, kind="model")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(ArtifactError, match=r"s\.safetensors"):
        load_state(path, kind="model")


@given(position=st.floats(0, 0.999), bit=st.integers(0, 7))
def test_a_flipped_bit_never_goes_unnoticed(tmp_path_factory, position, bit):
    path = tmp_path_factory.mktemp("b") / "s.safetensors"
    save_state(path, {"x": torch.arange(50.0), "step": 3}, kind="model")
    content = bytearray(path.read_bytes())
    content[int(len(content) * position)] ^= 1 << bit
    path.write_bytes(content)
    try:
        back = load_state(path, kind="model")
    except ArtifactError:
        return
    # The only harmless place is the padding and spelling of the header.
    assert torch.equal(back["x"], torch.arange(50.0))
    assert back["step"] == 3


def test_a_foreign_safetensors_file_is_refused(tmp_path):
    save_file({"x": torch.zeros(2)}, tmp_path / "f.safetensors")
    with pytest.raises(ArtifactError, match="not written by transop"):
        load_state(tmp_path / "f.safetensors", kind="model")


def test_a_newer_file_asks_for_an_upgrade(tmp_path):
    info = {"format": "transop", "format_version": "99", "kind": "model"}
    save_file({"x": torch.zeros(2)}, tmp_path / "n.safetensors", metadata=info)
    with pytest.raises(ArtifactError, match="upgrade transop"):
        load_state(tmp_path / "n.safetensors", kind="model")


def test_a_file_of_another_kind_is_refused(tmp_path):
    save_state(tmp_path / "s.safetensors", {"x": torch.zeros(1)}, kind="checkpoint")
    with pytest.raises(ArtifactError, match="holds a checkpoint, not a model"):
        load_state(tmp_path / "s.safetensors", kind="model")


def test_a_failed_write_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "f.txt"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]


def test_only_the_two_newest_checkpoints_are_kept(run):
    for step in (1, 2, 3):
        run.save_checkpoint("autoencoder", step, {"step": step})
    assert len(list(run.checkpoints.iterdir())) == 2
    state, complaints = run.load_checkpoint("autoencoder")
    assert state == {"step": 3}
    assert not complaints


def test_a_damaged_newest_checkpoint_falls_back_and_says_so(run):
    run.save_checkpoint("autoencoder", 1, {"x": torch.ones(4), "step": 1})
    newest = run.save_checkpoint("autoencoder", 2, {"x": torch.ones(4), "step": 2})
    newest.write_bytes(newest.read_bytes()[:-3])
    state, complaints = run.load_checkpoint("autoencoder")
    assert state["step"] == 1
    assert "going back" in complaints[0]


def test_a_second_writer_is_told_to_wait(run):
    with (
        run.locked(),
        pytest.raises(ArtifactError, match="another process"),
        RunFolder(run.path).locked(),
    ):
        pass


def test_metrics_survive_a_cut_line_and_rewind(run):
    run.path.mkdir()
    for step in range(5):
        run.append_metrics({"phase": "operators", "step": step, "loss": 1.0})
    run.append_metrics({"phase": "autoencoder", "step": 9})
    with run.metrics_file.open("a") as file:
        file.write('{"phase": "oper')
    run.rewind_metrics("operators", 2)
    assert [r["step"] for r in run.read_metrics()] == [0, 1, 2, 9]


def test_finished_phases_are_remembered(run):
    run.mark_finished("autoencoder", seconds=3.0)
    run.mark_finished("operators", seconds=4.0)
    assert set(run.finished_phases()) == {"autoencoder", "operators"}


def test_the_environment_can_be_written_as_json():
    facts = json.loads(json.dumps(describe_environment(seed=7)))
    assert facts["seed"] == 7
    assert facts["packages"]["torch"] in torch.__version__
