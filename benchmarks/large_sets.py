"""Measure how time and memory grow from 50,000 to 1,000,000 small images that stay on disk.

    python benchmarks/large_sets.py --json docs/measurements/large-sets.json \
        --plot docs/pictures/large-sets.png

For each number of images, a process of its own opens a memory-mapped file, trains the autoencoder
for some steps, encodes every image, finds every image's neighbours and trains operators for some
steps. Memory is what the process has of its own (anonymous pages); pages of mapped files are the
system's to take back and are not counted. Of the two times, CPU seconds are those that a machine
busy with other work hardly changes. A small set goes first and is forgotten, so that nothing is
compiled while the others are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_SIZES = (50_000, 100_000, 200_000, 500_000, 1_000_000)
_SIDE = 16
_CHUNK = 50_000
_REHEARSAL = 2_000
_STEPS = 200
_BATCH = 250


def generate(path: Path, n: int) -> None:
    """Write images of three soft spots each, a chunk at a time."""
    images = np.lib.format.open_memmap(path, "w+", np.uint8, (n, _SIDE, _SIDE))
    random = np.random.default_rng(0)
    axis = np.arange(_SIDE, dtype=np.float32)
    for start in range(0, n, _CHUNK):
        count = min(_CHUNK, n - start)
        total = np.zeros((count, _SIDE, _SIDE), np.float32)
        for _ in range(3):
            x, y = random.uniform(2, _SIDE - 2, (2, count, 1)).astype(np.float32)
            width = random.uniform(1, 3, (count, 1)).astype(np.float32)
            across, down = (np.exp(-(((axis - c) / width) ** 2)) for c in (x, y))
            total += down[:, :, None] * across[:, None, :]
        images[start : start + count] = np.clip(200 * total, 0, 255)
    images.flush()


class Memory:
    """Watches how much memory of its own this process has."""

    def __init__(self) -> None:
        self.peak = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, own_megabytes())
            time.sleep(0.02)


def own_megabytes() -> float:
    """Read the anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this benchmark reads Linux's /proc")


def measure(path: Path, search: str, cache: Path) -> dict[str, Any]:
    """Run every step that touches all images, and note seconds and memory of each."""
    from transop.artifacts import RunFolder
    from transop.config import load_settings
    from transop.data import load_dataset
    from transop.model import ManifoldAutoencoder
    from transop.networks import build_autoencoder
    from transop.operators import TransportOperators
    from transop.pairs import build_pairs
    from transop.training import Session
    from transop.training.autoencoder import train_autoencoder
    from transop.training.latents import encode_split
    from transop.training.operators import train_operators

    memory = Memory()
    steps: dict[str, Any] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        memory.peak, before = own_megabytes(), own_megabytes()
        start, computed = time.perf_counter(), time.process_time()
        yield
        peak = max(memory.peak, own_megabytes())
        steps[name] = {
            "seconds": round(time.perf_counter() - start, 2),
            "cpu_seconds": round(time.process_time() - computed, 2),
            "peak_megabytes": round(peak, 1),
            "added_megabytes": round(peak - before, 1),
        }

    with step("open"):
        dataset = load_dataset(path)
    n_train = len(dataset.splits["train"])
    epochs = _STEPS * _BATCH / n_train
    changes = [
        f"{phase}.{k}={v}"
        for phase in ("autoencoder", "operators")
        for k, v in (("epochs", epochs), ("batch_size", _BATCH))
    ]
    settings = load_settings("demo", [*changes, "runtime.checkpoint_seconds=1e6"])
    folder = RunFolder(cache / "run")
    folder.path.mkdir(parents=True)
    session = Session.open(settings, folder)
    network = build_autoencoder("conv", image_size=_SIDE, channels=1, latent_dimension=10, width=4)
    model = ManifoldAutoencoder(network, TransportOperators(8, 10))
    with step("autoencoder, 200 steps"):
        train_autoencoder(session, network, dataset)
    with step("encode all"):
        latents = encode_split(network, dataset)
    with step("neighbours"):
        pairs = build_pairs(dataset, "pixel", search=search, cache_dir=cache)
    with step("operators, 200 steps"):
        train_operators(session, model, latents, pairs)
    return {"n_images": len(dataset), "n_train": n_train, "recall": pairs.recall, "steps": steps}


def run_all(sizes: list[int], search: str, scratch: Path) -> list[dict[str, Any]]:
    """Measure every number of images in a process of its own."""
    results = []
    for n in (_REHEARSAL, *sizes):
        path = scratch / "images.npy"
        generate(path, n)
        with tempfile.TemporaryDirectory(dir=scratch) as cache:
            command = [sys.executable, __file__, "--measure", str(path), "--search", search]
            environment = {**os.environ, "TRANSOP_CACHE": cache}
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
        path.unlink()
        if n == _REHEARSAL:
            continue
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(results[-1]), flush=True)
    return results


def growth(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up every step: bytes per further image, and the power of n its CPU time follows."""
    sizes = [result["n_images"] for result in results]
    found = {}
    for name in results[0]["steps"]:
        steps = [result["steps"][name] for result in results]
        added = steps[-1]["peak_megabytes"] - steps[0]["peak_megabytes"]
        spent = [max(step["cpu_seconds"], 0.01) for step in steps]
        ratios = [a / b for a, b in _ends(spent)]
        powers = [np.log(r) / np.log(n / m) for r, (n, m) in zip(ratios, _ends(sizes), strict=True)]
        found[name] = {
            "bytes_per_image": round(added * 2**20 / (sizes[-1] - sizes[0]), 1),
            "power_overall": round(powers[0], 2),
            "power_at_the_end": round(powers[1], 2),
        }
    return found


def _ends(values: list[Any]) -> list[tuple[Any, Any]]:
    """Pair the last value with the first, and with the one before it."""
    return [(values[-1], values[0]), (values[-1], values[-2])]


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds and memory of every step over the number of images."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    sizes = np.array([result["n_images"] for result in results])
    for name in list(results[0]["steps"])[1:]:  # opening takes no time
        steps = [result["steps"][name] for result in results]
        left.plot(sizes, [step["cpu_seconds"] for step in steps], marker="o", label=name)
        right.plot(sizes, [step["peak_megabytes"] for step in steps], marker="o", label=name)
    found = [result["steps"]["neighbours"]["cpu_seconds"] for result in results]
    left.plot(sizes, found[0] * (sizes / sizes[0]) ** 1.5, "k--", lw=1, label="n √n")
    left.set(xscale="log", yscale="log", xlabel="images", ylabel="CPU seconds", title="Time")
    floats = sizes * _SIDE**2 * 4 / 2**20
    right.plot(sizes, floats, "k:", label="if all pixels were floats in memory")
    right.set(xscale="log", xlabel="images", ylabel="megabytes", title="Own memory, highest")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axes.minorticks_off()
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    left.legend(*[[x[-1]] for x in left.get_legend_handles_labels()], frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, store after every size, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SIZES))
    parser.add_argument("--search", default="faiss", help="faiss, exact, or auto")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--plot", type=Path, help="where to draw them (.png)")
    parser.add_argument("--scratch", type=Path, help="where the images go; the system's own")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        cache = Path(os.environ["TRANSOP_CACHE"])
        print(json.dumps(measure(options.measure, options.search, cache)))
        return
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        results = run_all(options.sizes, options.search, Path(scratch))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        report = {"side": _SIDE, "search": options.search, "results": results}
        report["growth"] = growth(results) if len(results) > 1 else {}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
