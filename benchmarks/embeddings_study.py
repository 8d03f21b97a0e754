r"""What operators are worth in the features of an image network.

    python benchmarks/embeddings_study.py --fruits FRUITS.npz --celeba FOLDER \
        --out docs/measurements/embeddings.json

FRUITS.npz has `images`, `labels` and `angle_deg` (a turntable). FOLDER has CelebA's own layout.
Features are those of EfficientNet-Lite0 (extra `perceptual`), reduced to 64 principal directions
and divided by their mean length. Random moves are compared at equal mean length |dz| / |z|, because
short moves keep identity whatever their direction. Training and held-out rows are different blocks
of angle, or different people. Writes every seed's numbers as JSON; `transop paper numbers` makes
tables of them: means over seeds with 95 % intervals of Student's t. Needs scikit-learn.
"""

import argparse
import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embeddings.measures import (
    Moves,
    Vectors,
    along_paths,
    few_labels,
    kept_identity,
    movers,
    spread,
)
from embeddings.retrieval import add_attributes, turns
from PIL import Image
from sklearn.decomposition import PCA

import transop
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.pairs.features import batch_size_for, prepare_images
from transop.pairs.neighbours import nearest_neighbours

# The first trait of each is the class. CelebA's people cannot be told apart in these features.
TRAITS = ("Male", "Smiling", "Eyeglasses", "Blond_Hair", "Black_Hair", "Wearing_Hat", "Young")
INPUT, DIRECTIONS, OPERATORS, NEIGHBOURS, BATCH = 96, 64, 16, 5, 100
BLOCK, GAP = 30.0, 3.0  # degrees of a block of angle, and of what is left out beside it
SQUARE = slice(6, 58)  # rows of the central square, where whole pictures were squashed to 64 x 64

Result = dict[str, dict[str, dict[str, float]]]


def read_fruits(path: Path, cache: Path) -> Vectors:
    """Embed frames of a turntable; every other block of angle is held out."""
    data = np.load(path)
    angle, objects = data["angle_deg"] % 360, data["labels"].astype(int)
    held_out = (angle // BLOCK) % 2 == 1
    beside = np.minimum(angle % BLOCK, BLOCK - angle % BLOCK) < GAP
    train, test = np.flatnonzero(~held_out & ~beside), np.flatnonzero(held_out)
    features = embed(data["images"], cache / "fruits.npy")
    test = np.random.default_rng(0).permutation(test)
    return Vectors(reduce(features, train), objects[:, None], train, test, objects, 1, angle)


def read_celeba(folder: Path, cache: Path, n_images: int) -> Vectors:
    """Embed faces; half of the people are held out."""
    lines = (folder / "list_attr_celeba.txt").read_text().splitlines()
    columns = [lines[1].split().index(name) for name in TRAITS]
    rows = [line.split() for line in lines[2:]][:n_images]
    traits = (np.array([row[1:] for row in rows], dtype=int)[:, columns] > 0).astype(int)
    people = dict(
        line.split() for line in (folder / "identity_CelebA.txt").read_text().splitlines()
    )
    person = np.array([int(people[row[0]]) for row in rows])
    file, images = cache / f"celeba-{len(rows)}.npy", np.empty(0)
    if not file.exists():
        with zipfile.ZipFile(folder / "img_align_celeba.zip") as archive:
            files = [io.BytesIO(archive.read(f"img_align_celeba/{row[0]}")) for row in rows]
        images = np.stack([np.asarray(Image.open(f).convert("RGB")) for f in files])
        images = images[:, SQUARE] if images.shape[1:3] == (64, 64) else images
    train, test = np.flatnonzero(person % 2 == 0), np.flatnonzero(person % 2 == 1)
    return Vectors(reduce(embed(images, file), train), traits, train, test, person, 5)


@torch.inference_mode()
def embed(images: np.ndarray, file: Path) -> np.ndarray:
    """Run images through the network once; later calls read the file."""
    if not file.exists():
        network = load_efficientnet_lite0(None).eval()
        parts = [
            network.features(
                prepare_images(torch.tensor(part).permute(0, 3, 1, 2).float() / 255, INPUT)
            )
            for part in np.array_split(images, -(-len(images) // batch_size_for(INPUT)))
        ]
        np.save(file, torch.cat(parts).numpy())
    return np.load(file)


def reduce(features: np.ndarray, train: np.ndarray) -> torch.Tensor:
    """Keep the first principal directions of the training rows, at mean length one."""
    z = PCA(DIRECTIONS, random_state=0).fit(features[train]).transform(features)
    return torch.from_numpy(z / np.linalg.norm(z, axis=1).mean()).float()


def study(data: Vectors, seeds: range, n_steps: int) -> Iterator[Result]:
    """Measure everything with several seeds of operators, labels and draws."""
    train = data.z[data.train]
    near = nearest_neighbours(train, NEIGHBOURS)
    z0, z1 = train.repeat_interleave(NEIGHBOURS, 0), train[near.flatten()]
    chosen = transop.choose_objective(z0, z1, OPERATORS, n_steps=min(60, n_steps))
    for seed in seeds:
        began = time.process_time()
        generator = torch.Generator().manual_seed(seed)
        learned = transop.learn_operators(
            z0,
            z1,
            OPERATORS,
            **vars(chosen),
            n_steps=n_steps,
            batch_size=BATCH,
            generator=generator,
        )
        moves = Moves(movers(train, near, learned, seed), data.points(), seed)
        found: Result = {
            "operators": {"learned": _facts(learned)},
            "moves": kept_identity(data, moves),
            "few labels": few_labels(data, moves, seed),
            "paths": along_paths(data, learned),
            "spreading": {name: {"accuracy": v} for name, v in spread(data, learned, seed).items()},
        }
        if data.angle is None:
            found["adding an attribute"] = add_attributes(data, learned, seed)
        else:
            found.update(turns(data, learned, n_steps, seed))
        print(f"seed {seed}: {time.process_time() - began:.0f} CPU seconds", flush=True)
        yield found


def _facts(learned: transop.LearnedOperators) -> dict[str, float]:
    return {
        "covered": learned.paths.covered,
        "used": learned.paths.nonzeros,
        "alive": float(learned.living.sum()),
    }


def main() -> None:
    """Read the sets that are given and study each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fruits", type=Path)
    parser.add_argument("--celeba", type=Path)
    parser.add_argument("--images", type=int, default=30_000, help="of CelebA")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--cache", type=Path, default=Path("runs/embeddings"))
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    wanted = parser.parse_args()
    wanted.cache.mkdir(parents=True, exist_ok=True)
    seeds = range(wanted.first_seed, wanted.first_seed + wanted.seeds)
    everything: dict[str, Any] = {"seeds": list(seeds), "steps": wanted.steps}
    for name, place in (("fruits", wanted.fruits), ("celeba", wanted.celeba)):
        if place is None:
            continue
        if name == "fruits":
            data = read_fruits(place, wanted.cache)
        else:
            data = read_celeba(place, wanted.cache, wanted.images)
        rows = {"train": len(data.train), "held out": len(data.test)}
        results: list[Result] = []
        everything[name] = {"rows": rows, "results": results}
        for found in study(data, seeds, wanted.steps):
            results.append(found)
            wanted.out.write_text(json.dumps(_rounded(everything), indent=1) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, float):
        return round(value, 4) if np.isfinite(value) else None
    return value


if __name__ == "__main__":
    main()
