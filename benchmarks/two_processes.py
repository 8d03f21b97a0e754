"""Compare one process with two on the same run: time, as ratios, and losses.

    python benchmarks/two_processes.py --json docs/measurements/two-processes.json

All contenders train every phase of the same recipe with the same global batches, one after the
other in this call: one process with one thread, one process with two threads, which use the same
two cores without any exchange, and two processes with one thread each. A second pass in the
opposite order shows how much the machine itself varied.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_CHANGES = ("data.limit={n}", "runtime.device=cpu", "pairs.strategy={strategy}")


# Processes and threads of each; the first is what the others are compared with.
CONTENDERS = {
    "one process, one thread": (1, 1),
    "one process, two threads": (1, 2),
    "two processes, one thread each": (2, 1),
}


def run(folder: Path, contender: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train once; give the seconds of every phase and the losses."""
    n_processes, n_threads = CONTENDERS[contender]
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
    cache = {"TRANSOP_CACHE": str(folder) + "-cache", "OMP_NUM_THREADS": str(n_threads)}
    start = time.monotonic()
    done = subprocess.run(
        command, env={**os.environ, **cache}, stdout=subprocess.PIPE, text=True, check=True
    )
    wall = time.monotonic() - start
    phases = json.loads(done.stdout)["phases"]
    lines = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    losses = {f"{r['phase']} {r['step']}": r["loss"] for r in lines if "loss" in r}
    seconds = {phase: facts["seconds"] for phase, facts in phases.items()}
    return {"seconds": {**seconds, "whole command": wall}, "losses": losses}


def compare(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Run all contenders forwards and backwards, and divide their times."""
    order = list(CONTENDERS)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in order}
    for number, name in enumerate([*order, *reversed(order)][: len(order) * options.passes]):
        runs[name].append(run(scratch / f"run-{number}", name, options))
        print(f"{name}: {runs[name][-1]['seconds']}", flush=True)
    seconds = {
        name: {p: statistics.mean(r["seconds"][p] for r in done) for p in done[0]["seconds"]}
        for name, done in runs.items()
    }
    one, losses = seconds[order[0]], runs[order[0]][0]["losses"]
    return {
        "images": options.images,
        "seconds": {
            n: {p: round(v, 2) for p, v in phases.items()} for n, phases in seconds.items()
        },
        "speed_up": {
            name: {p: round(one[p] / value, 2) for p, value in phases.items()}
            for name, phases in seconds.items()
        },
        "longest_over_shortest_pass": {
            name: round(_spread(done), 2) for name, done in runs.items()
        },
        "largest_relative_difference_of_losses": {
            name: max(abs(done[0]["losses"][k] - v) / max(abs(v), 1e-6) for k, v in losses.items())
            for name, done in runs.items()
        },
    }


def _spread(runs: list[dict[str, Any]]) -> float:
    totals = [run["seconds"]["whole command"] for run in runs]
    return float(max(totals) / min(totals))


def main() -> None:
    """Compare, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--strategy", default="perceptual")
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
