"""How faithful are reconstructed faces? Several runs side by side, by numbers and by eye.

    python benchmarks/fidelity.py OUT.json RUN BASELINE [BASELINE ...] --names "with,without"

RUN has the images, CelebA's; the baselines were trained on them. No baseline was trained on any
measure but the squared error: structural similarity (SSIM), the distance in the last features of
EfficientNet-Lite0 (enlarged images), the distance in the features of a small network that tells
CelebA's forty attributes, and how often that network, which has seen photographs only, names the
attributes of reconstructions rightly. The picture has a row of reconstructions for each baseline.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept_person import train_attributes
from kornia.metrics import ssim
from PIL import Image
from torch import Tensor
from torch.nn.functional import cosine_similarity

import transop
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.pairs.features import prepare_images
from transop_paper.figures.companions import load_companion

_CHUNK = 100
_WINDOW = 11  # pixels, of SSIM
_INPUT_SIZE = 128
_SHOWN, _ENLARGED = 12, 2


class Measures:
    """The networks by which images are compared."""

    def __init__(self, dataset: transop.ImageDataset) -> None:
        self._dataset = dataset
        self._general = load_efficientnet_lite0()
        self._faces = train_attributes(dataset)

    @torch.inference_mode()
    def compare(self, model: Any, rows: np.ndarray) -> dict[str, float]:
        """Average every measure over images and their reconstructions."""
        parts = [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]
        found = [self._chunk(model, part) for part in parts]
        weights = np.array([len(part) for part in parts])
        return {
            name: float(np.average([one[name] for one in found], weights=weights))
            for name in found[0]
        }

    def _chunk(self, model: Any, rows: np.ndarray) -> dict[str, float]:
        images = self._dataset.batch(rows)
        decoded = model.decode(model.encode(images)).clamp(0, 1)
        both = (images, decoded)
        late = [self._general.features(prepare_images(x, _INPUT_SIZE)) for x in both]
        seen = [self._faces.trunk(x) for x in both]
        truth = torch.from_numpy(self._dataset.attributes[rows] > 0)  # type: ignore[index]
        named = [self._faces(x).argmax(2) == truth for x in both]
        away = (seen[0] - seen[1]).square().sum(1) / seen[0].square().sum(1)
        values = {
            "squared error": (images - decoded).square().mean(),
            "SSIM": ssim(images, decoded, _WINDOW).mean(),
            "distance, ImageNet features": 1 - cosine_similarity(*late).mean(),
            "distance, face features": away.mean(),
            "attributes of reconstructions": named[1].float().mean(),
            "attributes of photographs": named[0].float().mean(),
            "contrast of edges": _contrast(decoded) / _contrast(images),
        }
        return {name: float(value) for name, value in values.items()}


def _contrast(images: Tensor) -> Tensor:
    """Average the squared difference of neighbouring pixels."""
    return (images[..., 1:] - images[..., :-1]).square().mean()


@torch.inference_mode()
def draw(images: Tensor, models: list[Any], file: Path) -> None:
    """Write a row of reconstructions for every model; photographs may not be passed on."""
    rows = torch.stack([model.decode(model.encode(images)) for model in models])
    k, n, _, h, w = rows.shape
    canvas = rows.clamp(0, 1).permute(0, 3, 1, 4, 2).reshape(k * h, n * w, 3)
    picture = Image.fromarray((255 * canvas).round().byte().numpy())
    picture.resize((_ENLARGED * n * w, _ENLARGED * k * h), Image.Resampling.BICUBIC).save(file)


def main() -> None:
    """Compare, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("baselines", type=Path, nargs="+")
    parser.add_argument("--names", required=True, help="of the baselines, separated by commas")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    options = parser.parse_args()
    dataset = transop.Run.open(options.run).dataset
    models = [load_companion(path) for path in options.baselines]
    rows = dataset.splits[options.split]
    measures = Measures(dataset)
    names = options.names.split(",")
    found = {name: measures.compare(model, rows) for name, model in zip(names, models, strict=True)}
    print(json.dumps(found, indent=1))
    options.out.write_text(json.dumps({"split": options.split, "runs": found}, indent=1))
    if options.picture is not None:
        draw(dataset.batch(rows[:_SHOWN]), models, options.picture)


if __name__ == "__main__":
    main()
