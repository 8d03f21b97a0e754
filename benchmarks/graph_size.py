"""Time and memory of the neighbour graph's groups, against the number of images.

    python benchmarks/graph_size.py OUT.json [50000 100000 200000]

Points are drawn from ten overlapping Gaussian groups in ten dimensions, as latents of digits are.
Every number of points is measured in a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from transop.identity import agreement, find_communities, neighbour_graph
from transop.pairs import nearest_neighbours


def measure(n_points: int) -> dict[str, float]:
    """Find the groups of so many points."""
    generator = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(10, 10, generator=generator)
    names = torch.randint(10, (n_points,), generator=generator)
    points = centres[names] + torch.randn(n_points, 10, generator=generator)
    start = time.perf_counter()
    neighbours = nearest_neighbours(points, 10)
    searched = time.perf_counter()
    found = find_communities(neighbour_graph(neighbours))
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "points": n_points,
        "neighbours_s": round(searched - start, 1),
        "groups_s": round(ended - searched, 1),
        "peak_gib": round(peak / 2**20, 2),
        "n_groups": found.n_communities,
        "purity": round(agreement(found.members, names.numpy())["purity"], 3),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Measure each number in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("numbers", type=int, nargs="*", default=[50_000, 100_000, 200_000])
    parser.add_argument("--alone", action="store_true", help="measure in this process and print")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(options.numbers[0])))
        return
    rows = []
    for number in options.numbers:
        command = [sys.executable, __file__, str(options.out), str(number), "--alone"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(done.stdout.strip(), flush=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
