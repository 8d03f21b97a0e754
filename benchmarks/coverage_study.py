"""Measure where accuracy is lost, for each augmentation: to missing images or to wrong labels.

    python benchmarks/coverage_study.py runs/mnist --out docs/figures/coverage-mnist

writes OUT.json and OUT.png; `transop_paper.scarce.coverage` says what is measured.
"""

import argparse
import json
from pathlib import Path
from statistics import mean

import torch

from transop.plotting import COLOURS, Block, draw_block, look, new_figure
from transop_paper.scarce import Protocol, find_rows, open_experiment
from transop_paper.scarce.coverage import Coverage, CoverageStudy

ROWS = [
    ("none", "as they are"),
    ("elastic", "elastic"),
    ("transport-prior", "fixed prior"),
    ("transport-encoder@multiplier=0.5", "encoder, half the scale"),
    ("transport-encoder", "encoder"),
    ("transport-encoder@multiplier=2", "encoder, twice the scale"),
    ("transport-encoder@n_steps=10", "encoder, walk of 10"),
    ("transport-guarded@multiplier=2,n_steps=1", "guard, twice the scale"),
    ("transport-guarded", "guard, walk of 10"),
]


def draw(points: list[dict], examples: torch.Tensor, titles: list[str]):
    """Draw both kinds of loss as bars at the left, images of every row at the right."""
    with look():
        figure = new_figure(10.5, 4.2)
        axes = figure.add_subplot(1, 2, 1)
        places = range(len(points))
        missed = [100 * point["missed"] for point in points]
        misled = [100 * max(point["misled"], 0) for point in points]
        axes.barh(places, missed, color=COLOURS[0], label="no rightly labelled image is close")
        axes.barh(places, misled, left=missed, color=COLOURS[1], label="misled by wrong labels")
        axes.set_yticks(places, [point["title"] for point in points])
        axes.invert_yaxis()
        axes.set_xlabel("validation images with another label than the closest image, %")
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        right = figure.add_subplot(1, 2, 2)
        draw_block(right, Block(examples.numpy(), row_labels=tuple(titles)))
    return figure


def main() -> None:
    """Measure every row over some seeds and write numbers and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    wanted = parser.parse_args()
    protocol = Protocol(pool_size=20_000, real_share=0.0)
    experiment = open_experiment(wanted.out.with_suffix(""), protocol, run=wanted.run)
    study = CoverageStudy(experiment)
    points, examples, titles = [], [], []
    for name, title in ROWS:
        (row,) = find_rows([name], experiment.dataset.meta.name)
        found: list[Coverage] = [study.measure(row, seed) for seed in range(wanted.seeds)]
        points.append(
            {
                "row": name,
                "title": title,
                "label errors": round(mean(one.label_errors for one in found), 4),
                "missed": round(mean(one.missed for one in found), 4),
                "misled": round(mean(one.misled for one in found), 4),
            }
        )
        print(json.dumps(points[-1]), flush=True)
        examples.append(found[0].examples)
        titles.append(title)
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.out.with_suffix(".json").write_text(json.dumps(points, indent=2) + "\n")
    draw(points, torch.stack(examples), titles).savefig(wanted.out.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
