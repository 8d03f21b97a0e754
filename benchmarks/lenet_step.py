"""Time one training step of LeNet-5, compiled and by torch, in CPU seconds of one core.

    python benchmarks/lenet_step.py [--chunks 20]

Both ways train on the same random pictures, turn by turn, so that a busy machine slows both. The
fastest chunk counts.
"""

import argparse
import copy
import time

import torch

from transop.networks import LeNet
from transop_paper.scarce.lenet import LanesTrainer, TorchTrainer

BATCH_SIZE, STEPS_PER_CHUNK = 50, 50


def main() -> None:
    """Time both and print milliseconds per step and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20, help="of 50 steps each")
    n_chunks = parser.parse_args().chunks
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = LeNet(image_size=28, channels=1, n_classes=10)
    n = BATCH_SIZE * STEPS_PER_CHUNK
    coarse = torch.rand(n, 1, 7, 7)
    images = torch.nn.functional.interpolate(coarse, (28, 28), mode="bilinear")
    images = (2 * images - 1).clamp_min(0)  # about half of it black, as in drawn digits
    labels = torch.randint(10, (n,))
    shared = {"batch_size": BATCH_SIZE, "weight_decay": 1e-4}
    trainers = {
        "compiled": LanesTrainer(copy.deepcopy(network), image_size=28, **shared),
        "torch": TorchTrainer(copy.deepcopy(network), **shared),
    }
    fastest = dict.fromkeys(trainers, float("inf"))
    for chunk in range(n_chunks + 1):  # the first one compiles
        for name, trainer in trainers.items():
            start = time.process_time()
            trainer.train(images, labels, [1e-3] * STEPS_PER_CHUNK)
            if chunk:
                fastest[name] = min(fastest[name], time.process_time() - start)
    for name, seconds in fastest.items():
        print(f"{name:9} {1000 * seconds / STEPS_PER_CHUNK:6.2f} ms per step")
    print(f"{'ratio':9} {fastest['torch'] / fastest['compiled']:6.2f}")


if __name__ == "__main__":
    main()
