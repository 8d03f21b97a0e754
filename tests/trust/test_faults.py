"""A machine that fails or a user who hurries: each fault costs one clear line and no result."""

import contextlib
import errno
import os
import resource
import subprocess
import sys

import pytest

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop_app import cli

TINY = [
    "recipe=tiny",
    "data.limit=64",
    "autoencoder.width=16",
    "autoencoder.latent_dimension=4",
    "autoencoder.epochs=1",
    "autoencoder.batch_size=16",
    "runtime.checkpoint_seconds=0",
    *(f"{p}.epochs=0" for p in ("operators", "fine_tuning", "classifier", "coefficient_encoder")),
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    file = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    file.write_text(load_settings("demo", TINY).to_toml())
    return str(file)


@pytest.fixture(scope="module")
def undisturbed(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert cli.run(["train", recipe, "--out", str(folder), "--quiet"]) == 0
    return (folder / "model.safetensors").read_bytes()


def error_line(capfd):
    err = capfd.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return err[err.index("error: ") :].replace("\n", " ")


@contextlib.contextmanager
def small_disk(folder, n_kilobytes):
    """Let only so much be written below a folder; where mounting is not allowed, per file."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={n_kilobytes}k", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def enlarge():
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=50m", str(folder)], check=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    if not mounted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_kilobytes * 1024, limits[1]))
    try:
        yield enlarge
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_stops_the_run_and_resume_finishes_it(recipe, undisturbed, tmp_path, capfd):
    with small_disk(tmp_path / "disk", 200) as enlarge:
        command = ["train", recipe, "--out", str(tmp_path / "disk" / "run")]
        assert cli.run(command) == 1
        line = error_line(capfd)
        assert os.strerror(errno.ENOSPC) in line or os.strerror(errno.EFBIG) in line
        enlarge()
        assert cli.run([*command, "--resume", "--quiet"]) == 0
        finished = (tmp_path / "disk" / "run" / "model.safetensors").read_bytes()
    assert finished == undisturbed


@pytest.mark.parametrize("moment", [1, 4, 9])
def test_a_write_that_fails_at_any_moment_loses_nothing(
    recipe, undisturbed, tmp_path, capfd, monkeypatch, moment
):
    sync, calls = os.fsync, []

    def failing(descriptor):
        calls.append(descriptor)
        if len(calls) == moment:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    command = ["train", recipe, "--out", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        assert cli.run(command) == 1
    assert "No space left" in error_line(capfd)
    assert cli.run([*command, "--resume", "--quiet"]) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == undisturbed
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_read_only_output_is_refused_before_anything_is_computed(recipe, tmp_path, capfd):
    folder = tmp_path / "archive"
    folder.mkdir(mode=0o555)
    options = ["-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    # Where mounting is not allowed we are not root, and the folder's mode is obeyed.
    try:
        code = cli.run(["train", recipe, "--out", str(folder / "run")])
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
    assert code == (1 if mounted else 2)
    line = error_line(capfd)
    assert "cannot write to" in line
    assert str(folder) in line.replace(" ", "")


def test_two_runs_into_one_folder_are_told_apart(recipe, tmp_path, capfd):
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        assert cli.run(["train", recipe, "--out", str(folder.path)]) == 2
    line = error_line(capfd)
    assert "another process is writing" in line
    assert "--out" in line


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_newest_checkpoint_is_named_and_passed_over(
    recipe, undisturbed, tmp_path, capfd, monkeypatch, damage
):
    folder = RunFolder(tmp_path / "run")
    command = ["train", recipe, "--out", str(folder.path)]
    with monkeypatch.context() as patch:
        # By its path the module cannot be had: the function `fit` has the same name.
        patch.setattr(sys.modules["transop.training.phases"], "_conclude", _power_cut)
        with pytest.raises(PowerCut):
            cli.run([*command, "--quiet"])
    newest = sorted(folder.checkpoints.iterdir())[-1]
    content = bytearray(newest.read_bytes())
    content[-100] ^= 1
    newest.write_bytes({"truncated": content[:-100], "emptied": b""}.get(damage, content))
    capfd.readouterr()
    assert cli.run([*command, "--resume"]) == 0
    said = capfd.readouterr().err.replace("\n", "")
    assert newest.name in said
    assert "going back to the checkpoint before it" in said
    assert (folder.path / "model.safetensors").read_bytes() == undisturbed


class PowerCut(BaseException):
    """Ends a run without a word, as a power cut would, but within this process."""


def _power_cut(*arguments):
    raise PowerCut
