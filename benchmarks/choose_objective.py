"""What `learn_operators` chooses for some vectors, and what comes of it.

    python benchmarks/choose_objective.py vectors.npz [--operators 16] [--neighbours 5]

The file is an .npy, or an .npz with an array `z`, of shape (vectors, dimensions).
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

import transop
from transop.pairs.neighbours import nearest_neighbours


def main() -> None:
    """Read vectors, learn operators from their neighbours and print the evidence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--operators", type=int, default=16)
    parser.add_argument("--neighbours", type=int, default=5)
    wanted = parser.parse_args()
    loaded = np.load(wanted.file)
    z = torch.from_numpy(loaded if isinstance(loaded, np.ndarray) else loaded["z"]).float()
    near = nearest_neighbours(z, wanted.neighbours)
    z0, z1 = z.repeat_interleave(wanted.neighbours, 0), z[near.flatten()]
    begin = time.perf_counter()
    learned = transop.learn_operators(z0, z1, wanted.operators)
    apart = (z1 - z0).norm(dim=1).mean() / learned.latent_scale
    print(f"pairs apart: {apart:.2f} of the mean length {learned.latent_scale:.4g}")
    for name, value in {**asdict(learned.objective), **asdict(learned.paths)}.items():
        print(f"{name}: {value:.4g}")
    print(f"living operators: {int(learned.living.sum())} of {wanted.operators}")
    print(f"converged: {learned.converged}, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
