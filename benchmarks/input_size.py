"""How the size at which images enter the feature network changes neighbours and time.

    python benchmarks/input_size.py OUT.json [--images 6000]

Of every data set, the first training images are paired by features at each size, and by their
pixels. The agreement is the share of the five nearest neighbours with the same label.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from transop.artifacts import write_json
from transop.data import load_dataset
from transop.pairs import build_pairs

DATASETS = ("mnist", "fashion-mnist")
SIZES = (32, 40, 48, 64, 96, 128)


def measure(dataset: str, n_images: int) -> list[dict[str, Any]]:
    """Pair images at every size; nothing is read from the cache."""
    images = load_dataset(dataset).subset("train").subset(np.arange(n_images))
    assert images.labels is not None
    rows = []
    for size in (*SIZES, None):
        settings = {"strategy": "pixel"} if size is None else {"input_size": size}
        with TemporaryDirectory() as cache:
            start = time.perf_counter()
            pairs = build_pairs(images, split=None, cache_dir=cache, **settings)
            seconds = time.perf_counter() - start
        row = {
            "input_size": size,
            "agreement": round(pairs.label_agreement(images.labels), 4),
            "images_per_second": round(n_images / seconds, 1),
        }
        print(dataset, row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    """Measure every data set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=6_000)
    wanted = parser.parse_args()
    found = {name: measure(name, wanted.images) for name in DATASETS}
    threads = torch.get_num_threads()
    write_json(wanted.out, {"images": wanted.images, "threads": threads, "datasets": found})


if __name__ == "__main__":
    main()
