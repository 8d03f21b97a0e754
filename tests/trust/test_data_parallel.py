"""Several processes on one run: the same losses as one, one writer, and no hanging survivors."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from transop.artifacts import RunFolder
from transop.config import PHASES, load_settings
from transop.errors import SettingsError
from transop.sharing import Ranks
from transop.training import train
from transop.training.loop import Loop
from transop.training.session import count_processes

SETTINGS = [
    "recipe=shared",
    "autoencoder.network=conv",  # has batch normalisation
    "autoencoder.width=4",
    "autoencoder.latent_dimension=4",
    "autoencoder.batch_size=31",  # two processes cannot share it equally
    "autoencoder.epochs=2",
    "pairs.strategy=pixel",
    "operators.n_operators=3",
    "operators.batch_size=31",
    "operators.epochs=1",
    "fine_tuning.batch_size=31",
    "fine_tuning.network_steps=2",
    "fine_tuning.operator_steps=2",
    "fine_tuning.epochs=1",
    "classifier.batch_size=31",
    "classifier.epochs=1",
    "coefficient_encoder.batch_size=31",
    "coefficient_encoder.epochs=1",
    "coefficient_encoder.hidden=[8]",
    "coefficient_encoder.distil_samples=1000",
    "runtime.device=cpu",
]
LOSSES = ("loss", "objective", "difference", "joint", "mse", "change", "divergence")


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """Bright bars of two classes, as a file that every process can open."""
    generator = np.random.default_rng(0)
    labels = np.arange(160) % 2
    yy, xx = np.mgrid[:16, :16] - 7.5
    angle = (generator.uniform(0, 0.6, 160) + labels * np.pi / 2)[:, None, None]
    shift = generator.uniform(-3, 3, 160)[:, None, None]
    images = 255 * np.exp(-((xx * np.sin(angle) + yy * np.cos(angle) - shift) ** 2) / 4)
    file = tmp_path_factory.mktemp("bars") / "bars.npz"
    np.savez(file, images=images.astype(np.uint8), labels=labels)
    return file


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))


def settings_for(bars, *overrides):
    return load_settings("demo", [*SETTINGS, f"data.source={str(bars)!r}", *overrides])


def loss_curve(folder):
    return {
        (record["phase"], record["step"], name): record[name]
        for record in RunFolder(folder).read_metrics()
        for name in LOSSES
        if name in record
    }


def assert_same_curve(folder, other):
    """Compare losses of every phase at every step, and that each was written once."""
    one, two = loss_curve(folder), loss_curve(other)
    assert {phase for phase, _, _ in one} == {*PHASES, "distillation"}
    for key, value in one.items():
        assert two[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key
    lines = [
        [(record["phase"], record["step"]) for record in RunFolder(path).read_metrics()]
        for path in (folder, other)
    ]
    assert lines[0] == lines[1]


def test_two_processes_follow_the_loss_curve_of_one(tmp_path, bars, monkeypatch):
    train(settings_for(bars), RunFolder(tmp_path / "one"))
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "other"))  # share the neighbours again
    model = train(settings_for(bars, "runtime.devices=2"), RunFolder(tmp_path / "two"))
    assert model.phases == PHASES
    assert_same_curve(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_torchrun_follows_the_loss_curve_of_one_process(tmp_path, bars, monkeypatch):
    train(settings_for(bars), RunFolder(tmp_path / "one"))
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "other"))
    recipe = tmp_path / "shared.toml"
    recipe.write_text(settings_for(bars).to_toml())
    process = start(recipe, tmp_path / "two", torchrun=True)
    said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    assert_same_curve(tmp_path / "one", tmp_path / "two")


def test_a_batch_smaller_than_the_devices_is_refused():
    one_of_three = SimpleNamespace(ranks=Ranks(1, 3))
    state = {"modules": {}, "optimisers": {}}
    with pytest.raises(SettingsError, match=r"2 images per step cannot be shared among 3 devices"):
        Loop(one_of_three, "autoencoder", 5, **state, steps_per_epoch=5, items_per_step=2)


def test_torchrun_decides_how_many_processes_there_are(monkeypatch, bars):
    facts = {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}
    for name, value in facts.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=r"torchrun started 4 processes.*leave --devices out"):
        count_processes(settings_for(bars, "runtime.devices=2").runtime)


def start(recipe, folder, *options, torchrun=False):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if torchrun else []
    command = [sys.executable, *launcher, "-m", "transop", "train", recipe, "--out", folder]
    return subprocess.Popen(
        [*map(str, command), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_a_checkpoint(folder, process):
    deadline = time.monotonic() + 600
    while not list((folder / "checkpoints").glob("*")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.1)


def workers_of(process):
    """Find the processes that train: the descendants that hold most memory."""
    listing = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True)
    rows = [tuple(map(int, line.split())) for line in listing.stdout.splitlines()[1:]]
    family = {process.pid}
    for _ in range(3):
        family |= {pid for pid, parent, _ in rows if parent in family}
    sizes = {pid: rss for pid, _, rss in rows if pid in family - {process.pid}}
    return sorted(sizes, key=sizes.__getitem__)[-2:]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("torchrun", [False, True], ids=["devices", "torchrun"])
def test_a_killed_process_stops_the_others_and_resume_goes_on(tmp_path, bars, torchrun):
    recipe, folder = tmp_path / "shared.toml", tmp_path / "run"
    slow = ["autoencoder.epochs=60", "runtime.checkpoint_seconds=0"]
    slow += [f"{phase}.epochs=0" for phase in PHASES[1:]]
    recipe.write_text(settings_for(bars, *slow).to_toml())
    options = [] if torchrun else ["--devices", "2"]
    process = start(recipe, folder, *options, torchrun=torchrun)
    wait_for_a_checkpoint(folder, process)
    victim, survivor = workers_of(process)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    said = process.communicate(timeout=60)[0]
    assert time.monotonic() - killed < 30
    assert not is_running(survivor)
    assert process.returncode != 0
    said = " ".join(said.split())  # lines are wrapped
    assert ("another process of the run has ended" if torchrun else "ended by SIGKILL") in said
    assert "--resume" in said
    options += ["--resume", "--set", "runtime.checkpoint_seconds=60"]
    resumed = start(recipe, folder, *options, torchrun=torchrun)
    said = resumed.communicate(timeout=600)[0]
    assert resumed.returncode == 0, said
    assert list(RunFolder(folder).finished_phases()) == ["autoencoder"]


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_with_a_checkpoint(tmp_path, bars):
    recipe, folder = tmp_path / "shared.toml", tmp_path / "run"
    recipe.write_text(settings_for(bars, "autoencoder.epochs=4000").to_toml())
    process = start(recipe, folder, "--devices", "2", "--set", "runtime.checkpoint_seconds=0")
    wait_for_a_checkpoint(folder, process)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said
