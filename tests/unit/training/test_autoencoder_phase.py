import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.data import load_dataset
from transop.networks import build_autoencoder
from transop.training import Session
from transop.training.autoencoder import reconstruction_loss, train_autoencoder

SOURCE = Path(__file__).parents[3] / "src"

SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[3])
from test_autoencoder_phase import train_in

train_in(sys.argv[1], np.load(sys.argv[2]))
"""


def train_in(folder, images):
    """Train a small network on an array in a folder, continuing what is there."""
    settings = load_settings(
        "demo",
        [
            "autoencoder.epochs=2",
            "autoencoder.batch_size=16",
            "runtime.checkpoint_seconds=0",
            "runtime.device=cpu",
        ],
    )
    folder = RunFolder(Path(folder))
    folder.path.mkdir(exist_ok=True)
    session = Session.open(settings, folder)
    trained = network()
    train_autoencoder(session, trained, load_dataset(images))
    return trained.state_dict()


def test_a_killed_run_continues_to_bit_identical_weights(tmp_path, bars):
    data, folder = tmp_path / "bars.npy", tmp_path / "killed"
    np.save(data, bars.images)
    command = [sys.executable, "-c", SCRIPT, str(folder), str(data), str(Path(__file__).parent)]
    threads = str(torch.get_num_threads())  # sums are grouped by threads
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": threads}
    process = subprocess.Popen(command, env=environment)
    second_epoch, n_steps = 128 // 16 + 2, 2 * (128 // 16)
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and process.poll() is None:
        if newest_step(folder) >= second_epoch:
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert second_epoch <= newest_step(folder) < n_steps, "not killed in the second epoch"
    resumed, whole = train_in(folder, bars.images), train_in(tmp_path / "whole", bars.images)
    for key in whole:
        assert torch.equal(whole[key], resumed[key]), key


def newest_step(folder):
    steps = [int(f.stem[-9:]) for f in (folder / "checkpoints").glob("auto*.safetensors")]
    return max(steps, default=0)


def network():
    torch.manual_seed(0)
    return build_autoencoder("auto", image_size=16, channels=1, latent_dimension=4, width=4)


def error(trained, bars):
    images = bars.batch(bars.splits["test"])
    with torch.no_grad():
        return float((trained(images) - images).square().mean())


def test_training_reconstructs_unseen_images_better_than_their_mean(make_session, bars):
    trained = network()
    train_autoencoder(make_session("autoencoder.epochs=40"), trained, bars)
    images = bars.batch(bars.splits["test"])
    mean = float((images - bars.batch(bars.splits["train"]).mean(0)).square().mean())
    assert error(trained, bars) < 0.5 * mean
    assert not trained.training


def test_an_edge_weight_counts_misplaced_edges_and_not_an_even_offset():
    images = torch.zeros(1, 1, 4, 4)
    offset, stripe = torch.full_like(images, 0.1), torch.zeros_like(images)
    stripe[..., 1] = 0.2  # the same squared error, but with edges
    plain = [float(reconstruction_loss(decoded, images)) for decoded in (offset, stripe)]
    weighted = [float(reconstruction_loss(decoded, images, 3.0)) for decoded in (offset, stripe)]
    assert plain == pytest.approx([0.01, 0.01])
    assert weighted == pytest.approx([0.01, 0.01 + 3.0 * 2 * 0.04 / 3])


def test_a_perceptual_weight_is_part_of_what_is_minimised(make_session, bars):
    losses = []
    for name, weight in (("without", 0.0), ("with", 1.0)):
        session = make_session(f"beyond_paper.perceptual_weight={weight}", name=name)
        train_autoencoder(session, network(), bars)
        losses.append(session.folder.read_metrics()[0]["loss"])
    assert losses[1] > losses[0] + 0.1


def test_the_seed_decides_the_weights_and_another_seed_others(make_session, bars):
    results = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained = network()
        train_autoencoder(make_session(f"runtime.seed={seed}", name=name), trained, bars)
        results.append(trained.state_dict()["encoder.0.weight"])
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_losses_and_rates_are_written_to_metrics_and_tensorboard(make_session, bars):
    session = make_session()
    train_autoencoder(session, network(), bars)
    last = session.folder.read_metrics()[-1]
    assert last["step"] == 16
    assert last["epoch"] == 2
    assert last["loss"] > 0
    assert last["images_per_second"] > 0
    assert list((session.folder.path / "tensorboard" / "autoencoder").iterdir())


def test_training_leaves_the_global_random_state_alone(make_session, bars):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    session = make_session()
    with session.seeded("weights"):
        trained = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
    train_autoencoder(session, trained, bars)
    assert torch.equal(torch.rand(3), expected)
