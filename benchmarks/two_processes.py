"""Compare one process with several on the same run: time, as ratios, and losses.

    python benchmarks/two_processes.py --json docs/measurements/two-processes.json

All contenders train every phase of the same recipe with the same global batches, one after the
other in this call; each process computes on one thread, so that ratios show what processes add.
A second pass in the opposite order shows how much the machine itself varied.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_CHANGES = ("data.limit={n}", "runtime.device=cpu", "pairs.strategy={strategy}")


def run(folder: Path, n_processes: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train once; give the seconds of every phase and the closing losses."""
    changes = [c.format(n=options.images, strategy=options.strategy) for c in _CHANGES]
    changes += [
        f"{phase}.epochs={options.epochs}"
        for phase in (
            "autoencoder",
            "operators",
            "fine_tuning",
            "classifier",
            "coefficient_encoder",
        )
    ]
    command = [sys.executable, "-m", "transop", "train", options.recipe, "--json", "--quiet"]
    command += ["--out", str(folder), "--devices", str(n_processes)]
    command += [word for change in changes for word in ("--set", change)]
    cache = {"TRANSOP_CACHE": str(folder) + "-cache", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env={**os.environ, **cache}, stdout=subprocess.PIPE, text=True, check=True
    )
    phases = json.loads(done.stdout)["phases"]
    lines = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    losses = {f"{r['phase']} {r['step']}": r["loss"] for r in lines if "loss" in r}
    return {"seconds": {p: facts["seconds"] for p, facts in phases.items()}, "losses": losses}


def compare(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Run all contenders forwards and backwards, and divide their times."""
    order = [1, *options.processes]
    runs: dict[int, list[dict[str, Any]]] = {n: [] for n in order}
    for number, n in enumerate([*order, *reversed(order)][: len(order) * options.passes]):
        runs[n].append(run(scratch / f"run-{number}", n, options))
        print(f"{n} process(es): {runs[n][-1]['seconds']}", flush=True)
    seconds = {
        n: {p: statistics.mean(r["seconds"][p] for r in done) for p in done[0]["seconds"]}
        for n, done in runs.items()
    }
    one = runs[1][0]["losses"]
    return {
        "images": options.images,
        "seconds": seconds,
        "speed_up": {
            n: {p: round(seconds[1][p] / value, 2) for p, value in phases.items()}
            for n, phases in seconds.items()
        },
        "speed_up_of_the_whole": {
            n: round(sum(seconds[1].values()) / sum(phases.values()), 2)
            for n, phases in seconds.items()
        },
        "largest_relative_difference_of_losses": {
            n: max(abs(done[0]["losses"][k] - v) / max(abs(v), 1e-6) for k, v in one.items())
            for n, done in runs.items()
        },
    }


def main() -> None:
    """Compare, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--strategy", default="perceptual")
    parser.add_argument("--processes", type=int, nargs="+", default=[2])
    parser.add_argument("--passes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--json", type=Path, help="where to write the result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        report = compare(options, Path(scratch))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k != "seconds"}, indent=2))


if __name__ == "__main__":
    main()
