"""Kill a training run at random moments, resume it, and compare its end with an undisturbed run.

    python benchmarks/kill_and_resume.py --kills 20 --json docs/measurements/kill-and-resume.json

Every phase is trained on a few drawn bars, with a checkpoint after every step, so that many kills
fall into a write. A run that comes to its end must have left the same model, byte for byte, and the
same metrics as the run that nobody disturbed; then the next one begins, until all kills are spent.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from transop.artifacts import RunFolder
from transop.config import PHASES

SETTINGS = """
recipe = "bars"
[data]
source = "{data}"
[autoencoder]
network = "conv"
width = 4
latent_dimension = 4
batch_size = 32
epochs = {epochs}
[pairs]
strategy = "pixel"
[operators]
n_operators = 3
batch_size = 32
epochs = {epochs}
[fine_tuning]
batch_size = 32
network_steps = 2
operator_steps = 2
epochs = {epochs}
[classifier]
batch_size = 32
epochs = {epochs}
[coefficient_encoder]
batch_size = 32
hidden = [8]
distil_samples = 1000
distil = {distil}
epochs = {epochs}
[runtime]
device = "cpu"
checkpoint_seconds = 0
"""
# What the clock decides; everything else in the metrics must be equal.
_TIMED = ("time", "seconds", "images_per_second", "pairs_per_second", "points_per_second")


def main() -> int:
    """Run the harness and say how it went; the exit code is 1 if any run ended differently."""
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        report = run_harness(
            Path(scratch), options.kills, options.seed, options.epochs, distil=not options.quick
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    for kill in report["kills"]:
        print(f"killed after {kill['seconds']:5.2f} s: {kill['where']}")
    print(f"{report['n_runs_compared']} runs compared; different: {report['different'] or 'none'}")
    return 1 if report["different"] else 0


def run_harness(
    scratch: Path, n_kills: int, seed: int, epochs: float, *, distil: bool = True
) -> dict[str, Any]:
    """Spend a number of kills on runs, and compare every run with an undisturbed one.

    Args:
        scratch: an empty folder.
        n_kills: how many processes to kill.
        seed: decides the moments.
        epochs: of every phase.
        distil: include the classifier's stand-in, whose large checkpoints take long to write.

    Returns:
        Where every kill fell, how many runs were compared, and what was different.
    """
    recipe = _write_recipe(scratch, epochs, distil)
    moments = random.Random(seed)
    _attempt(recipe, scratch / "first", None)  # may have to compile, which takes longer
    duration = _attempt(recipe, scratch / "whole", None) or 0.0
    expected = _outcome(scratch / "whole")
    kills: list[dict[str, Any]] = []
    different: list[str] = []
    n_runs = 0
    while len(kills) < n_kills or n_runs == 0:
        n_runs += 1
        folder = scratch / f"run-{n_runs}"
        while True:
            limit = moments.uniform(0, duration) if len(kills) < n_kills else None
            if _attempt(recipe, folder, limit) is not None:
                break
            kills.append({"seconds": limit, "where": _where(folder)})
        outcome = _outcome(folder)
        different += [f"{folder.name}: {key}" for key in expected if outcome[key] != expected[key]]
    return {
        "seed": seed,
        "undisturbed_seconds": round(duration, 2),
        "n_kills": len(kills),
        "n_runs_compared": n_runs,
        "different": different,
        "kills": kills,
    }


def _attempt(recipe: Path, folder: Path, limit: float | None) -> float | None:
    """Start or resume a run; give its seconds, or None if it was killed at its limit."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["transop.cli", "transop.training"])
    arguments = ["train", str(recipe), "--out", str(folder), "--resume", "--quiet"]
    process = context.Process(target=_train, args=(arguments,))
    start = time.monotonic()
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    if process.exitcode != 0:
        raise SystemExit(f"training ended with exit code {process.exitcode}")
    return time.monotonic() - start


def _train(arguments: list[str]) -> None:
    from transop import cli

    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until the process ends
    sys.exit(cli.run(arguments))


def _where(folder: Path) -> str:
    """Describe how far a killed run had come."""
    run = RunFolder(folder)
    written = sorted(run.checkpoints.glob("*.safetensors"), key=lambda f: f.stat().st_mtime_ns)
    half = [file.name for file in folder.rglob(".*.tmp")]
    if written:
        where = written[-1].stem
    else:
        done = list(run.finished_phases())
        where = f"after {done[-1]}" if done else "before the first checkpoint"
    return where + (f", while writing {half[0]}" if half else "")


def _outcome(folder: Path) -> dict[str, Any]:
    """Collect what a finished run must have in common with every other."""
    run = RunFolder(folder)
    metrics = [{k: v for k, v in r.items() if k not in _TIMED} for r in run.read_metrics()]
    phases = {
        name: {k: v for k, v in facts.items() if k not in _TIMED}
        for name, facts in run.finished_phases().items()
    }
    assert tuple(phases) == PHASES, phases
    return {
        "model": (folder / "model.safetensors").read_bytes(),
        "description": (folder / "config.json").read_bytes(),
        "metrics": metrics,
        "phases": phases,
        "left": [*sorted(f.name for f in folder.rglob("*.tmp")), *run.checkpoints.glob("*")],
    }


def _write_recipe(scratch: Path, epochs: float, distil: bool) -> Path:
    """Draw 160 bars in two classes, and write the recipe that learns from them."""
    random_numbers = np.random.default_rng(0)
    labels = np.arange(160) % 2
    yy, xx = np.mgrid[:16, :16] - 7.5
    angles = random_numbers.uniform(0, 0.6, 160) + labels * np.pi / 2
    shifts = random_numbers.uniform(-3, 3, 160)
    distance = xx * np.sin(angles)[:, None, None] + yy * np.cos(angles)[:, None, None]
    images = 255 * np.exp(-((distance - shifts[:, None, None]) ** 2) / 4)
    np.savez(scratch / "bars.npz", images=images.astype(np.uint8), labels=labels)
    recipe = scratch / "bars.toml"
    recipe.write_text(
        SETTINGS.format(data=scratch / "bars.npz", epochs=epochs, distil=str(distil).lower())
    )
    return recipe


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=float, default=4.0, help="of every phase")
    parser.add_argument("--quick", action="store_true", help="leave out the stand-in classifier")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
