"""Score networks that were trained with one augmentation or another on changed test images."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.artifacts import read_json, write_json
from transop.data import ImageDataset
from transop.errors import UserError
from transop.progress import Progress, silent
from transop_paper.scarce.corruptions import CORRUPTIONS, corrupt
from transop_paper.scarce.experiment import Experiment, identify, train_on_labelled
from transop_paper.scarce.rows import Row

UNCHANGED = "unchanged"
_AT_ONCE = 500


@dataclass(frozen=True)
class ChangedImages:
    """The same test images as they are and under every change."""

    by_change: dict[str, Float[Tensor, "n 1 h w"]]
    labels: Int[Tensor, " n"]

    @classmethod
    def of(cls, dataset: ImageDataset, n_images: int, *, progress: Progress = silent) -> Self:
        """Change ``n_images`` test images, evenly spaced over the split (all, if it has fewer)."""
        if dataset.labels is None or "test" not in dataset.splits:
            raise UserError(
                f"data set '{dataset.meta.name}' has no labelled test images, which this needs; "
                "choose another run"
            )
        if dataset.image_shape[0] != 1:
            raise UserError(
                f"data set '{dataset.meta.name}' has {dataset.image_shape[0]} channels; the "
                "changes are written for grey images"
            )
        rows = dataset.splits["test"]
        places = np.linspace(0, len(rows) - 1, min(n_images, len(rows))).round().astype(int)
        images = dataset.batch(rows[places])
        changed = {UNCHANGED: images}
        for name in progress(CORRUPTIONS, "changes", len(CORRUPTIONS)):
            changed[name] = torch.from_numpy(corrupt(images[:, 0].numpy(), name))[:, None]
        return cls(changed, torch.from_numpy(dataset.labels[rows[places]]))


def score_under_changes(
    experiment: Experiment, row: Row, seed: int, tests: ChangedImages
) -> dict[str, Any]:
    """Train a row with one seed and score it under every change, in percent.

    A result that is on disk is taken from there, unless other settings or images made it.
    """
    identity = identify(experiment, row, seed)
    identity |= {"tests": list(tests.by_change), "n_tested": len(tests.labels)}
    file = experiment.result_file(row, seed)
    if file.exists():
        stored: dict[str, Any] = read_json(file)
        if stored.get("identity") == identity:
            return stored
    network, facts = train_on_labelled(experiment, row, seed)
    accuracy = {}
    with torch.inference_mode():
        for name, images in tests.by_change.items():
            guesses = [network(part).argmax(1) for part in torch.split(images, _AT_ONCE)]
            right = torch.cat(guesses) == tests.labels
            accuracy[name] = round(100 * float(right.float().mean()), 3)
    result = {"row": row.name, "seed": seed, "accuracy": accuracy, **facts, "identity": identity}
    write_json(file, result)
    return result
