"""What operators are worth in the features of an image network: identity, few labels, retrieval.

    python benchmarks/embeddings_study.py --fruits FRUITS.npz --celeba FOLDER [--images 4000]
        [--seeds 5] [--steps 250]

FRUITS.npz has `images`, `labels` and `frame` (a turntable); FOLDER has CelebA's own layout.
Features are those of EfficientNet-Lite0 (extra `perceptual`), reduced to 64 principal directions
and divided by their mean length. All moves are compared at equal mean length |dz| / |z|, because
short moves keep identity whatever their direction. Prints Markdown tables: means over seeds with
95 % intervals.
"""

import argparse
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import transop
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.operators import sample_moves, transport_path
from transop.pairs.features import prepare_images
from transop.pairs.neighbours import nearest_neighbours

LENGTHS = (0.2, 0.4, 0.8)
TRAITS = ("Male", "Smiling", "Eyeglasses", "Blond_Hair", "Black_Hair", "Wearing_Hat", "Young")
INPUT, DIRECTIONS, OPERATORS, COPIES, AHEAD = 96, 64, 16, 20, 10

Mover = Callable[[Tensor, float, torch.Generator], Tensor]


@dataclass
class Vectors:
    """Features with what may not change (one column per trait), a held-out part, and frames."""

    z: Tensor
    traits: np.ndarray
    held_out: np.ndarray
    frame: np.ndarray | None = None


def read_fruits(path: Path, n_images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give images, objects, blocks of frames held out, and frames."""
    data = np.load(path)
    rows = np.arange(len(data["images"]))[:: max(1, len(data["images"]) // n_images)]
    frame = data["frame"][rows]
    return data["images"][rows], data["labels"][rows, None], frame // 41 % 2 == 1, frame


def read_celeba(folder: Path, n_images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give images, seven traits, and the people held out."""
    lines = (folder / "list_attr_celeba.txt").read_text().splitlines()
    columns = [lines[1].split().index(name) for name in TRAITS]
    table = np.array([line.split()[1:] for line in lines[2:]], dtype=int)[:, columns] > 0
    people = np.array(
        [int(line.split()[1]) for line in (folder / "identity_CelebA.txt").read_text().splitlines()]
    )
    names = [line.split()[0] for line in lines[2:]][:n_images]  # in the order of the attributes
    with zipfile.ZipFile(folder / "img_align_celeba.zip") as archive:
        files = [archive.open(f"img_align_celeba/{name}") for name in names]
        images = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    return images, table[:n_images].astype(int), people[:n_images] % 2 == 1


@torch.inference_mode()
def embed(images: np.ndarray, file: Path) -> np.ndarray:
    """Run images through the network once; later calls read the file."""
    if not file.exists():
        network = load_efficientnet_lite0(None).eval()
        parts = [
            network.features(
                prepare_images(torch.from_numpy(part).permute(0, 3, 1, 2).float() / 255, INPUT)
            )
            for part in np.array_split(images, -(-len(images) // 64))
        ]
        np.save(file, torch.cat(parts).numpy())
    return np.load(file)


def reduce(features: np.ndarray, held_out: np.ndarray) -> Tensor:
    """Keep the first principal directions of the training rows, at mean length one."""
    z = PCA(DIRECTIONS, random_state=0).fit(features[~held_out]).transform(features)
    return torch.from_numpy(z / np.linalg.norm(z, axis=1).mean()).float()


def movers(z: Tensor, near: Tensor, learned: transop.LearnedOperators) -> dict[str, Mover]:
    """Offer four ways of moving points, each with a strength."""
    count = near.shape[1]
    z0, z1 = z.repeat_interleave(count, 0)[:2000], z[near.flatten()[:2000]]
    weight = learned.sparsity_weight
    between = transop.infer_coefficients(learned.operators, z0, z1, sparsity_weight=weight)
    scale = between.coefficients.abs().mean(0)
    root = torch.linalg.cholesky(torch.cov(z.T) + 1e-6 * torch.eye(z.shape[1]))

    def along_operators(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        scales = (strength * scale).expand(len(points), -1)
        return sample_moves(learned.operators, points, scales, generator=source)[0]

    def isotropic(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        return points + strength * torch.randn(points.shape, generator=source)

    def covariance(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        return points + strength * torch.randn(points.shape, generator=source) @ root.T

    def to_neighbours(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        closest = torch.cdist(points, z).topk(6, largest=False).indices[:, 1:]
        pick = torch.randint(5, (len(points), 1), generator=source)
        return points + strength * (z[closest.gather(1, pick)[:, 0]] - points)

    return {
        "operators": along_operators,
        "isotropic noise": isotropic,
        "noise with the data's covariance": covariance,
        "towards a neighbour": to_neighbours,
    }


def strength_for(mover: Mover, points: Tensor, length: float, seed: int) -> float:
    """Find the strength at which moves have a mean relative length, by bisection."""
    low, high = 0.0, 64.0
    for _ in range(16):
        middle = (low + high) / 2
        moved = mover(points, middle, torch.Generator().manual_seed(seed))
        far = ((moved - points).norm(dim=1) / points.norm(dim=1)).mean()
        low, high = (middle, high) if float(far) < length else (low, middle)
    return low


def move_by(mover: Mover, points: Tensor, length: float, seed: int, n_copies: int) -> list[Tensor]:
    """Move points several times, by a mean relative length."""
    strength = strength_for(mover, points, length, seed)
    source = torch.Generator().manual_seed(seed)
    return [mover(points, strength, source) for _ in range(n_copies)]


def kept_identity(data: Vectors, moves: dict[str, Mover], seed: int) -> dict[str, list[float]]:
    """Count how often linear classifiers of all traits agree before and after a move."""
    train, test = data.z[~data.held_out].numpy(), data.z[data.held_out][:1000]
    heads = [
        LogisticRegression(max_iter=500).fit(train, trait)
        for trait in data.traits[~data.held_out].T
    ]
    kept: dict[str, list[float]] = {}
    for name, mover in moves.items():
        there = [move_by(mover, test, length, seed, 1)[0].numpy() for length in LENGTHS]
        kept[name] = [
            float(np.mean([(h.predict(z) == h.predict(test.numpy())).mean() for h in heads]))
            for z in there
        ]
    return kept


def few_labels(data: Vectors, moves: dict[str, Mover], seed: int) -> dict[str, float]:
    """Train a linear head on five labels per class of the first trait, with moved copies."""
    generator = np.random.default_rng(seed)
    trait, train = data.traits[:, 0], np.flatnonzero(~data.held_out)
    rows = np.concatenate(
        [generator.choice(train[trait[train] == c], 5, replace=False) for c in np.unique(trait)]
    )
    few, test = data.z[rows], data.z[data.held_out].numpy()
    found = {}
    for name, mover in [("none", None), *moves.items()]:
        copies = [few] if mover is None else [few, *move_by(mover, few, 0.3, seed, COPIES)]
        labels = np.tile(trait[rows], len(copies))
        head = LogisticRegression(C=10, max_iter=500).fit(torch.cat(copies).numpy(), labels)
        found[name] = float((head.predict(test) == trait[data.held_out]).mean())
    return found


def retrieve_ahead(data: Vectors, learned: transop.LearnedOperators) -> dict[str, float]:
    """Follow the turn from a frame to a later one as far again, and look up the nearest frame."""
    if data.frame is None:
        return {}
    objects, frame, z = data.traits[:, 0], data.frame, data.z
    place = {(int(o), int(f)): i for i, (o, f) in enumerate(zip(objects, frame, strict=True))}
    trios = [
        (i, place[o, f + AHEAD], place[o, f + 2 * AHEAD])
        for (o, f), i in place.items()
        if (o, f + AHEAD) in place and (o, f + 2 * AHEAD) in place and data.held_out[i]
    ][:1000]
    a, b, wanted = torch.tensor(trios).T
    found = transop.infer_coefficients(
        learned.operators, z[a], z[b], sparsity_weight=learned.sparsity_weight / 10
    )
    ahead = transport_path(learned.operators, found.coefficients, z[a], torch.tensor([2.0]))[:, 0]
    guesses = {"operators": ahead, "straight line": 2 * z[b] - z[a], "standing still": z[b]}
    right = {}
    for name, guess in guesses.items():
        nearest = torch.cdist(guess, z).argmin(1)
        same = objects[nearest] == objects[wanted]
        close = np.abs(frame[nearest] - frame[wanted]) <= AHEAD // 2
        right[name] = float((same & close).mean())
    return right


def study(data: Vectors, n_seeds: int, n_steps: int) -> None:
    """Learn operators with several seeds and print all tables."""
    train = data.z[~data.held_out]
    near = nearest_neighbours(train, 5)
    z0, z1 = train.repeat_interleave(5, 0), train[near.flatten()]
    chosen = transop.choose_objective(z0, z1, OPERATORS, n_steps=min(100, n_steps))
    kept, accuracy, ahead, paths = [], [], [], None
    for seed in range(n_seeds):
        learned = transop.learn_operators(
            z0,
            z1,
            OPERATORS,
            **vars(chosen),
            n_steps=n_steps,
            generator=torch.Generator().manual_seed(seed),
        )
        paths, moves = learned.paths, movers(train, near, learned)
        kept.append(kept_identity(data, moves, seed))
        accuracy.append(few_labels(data, moves, seed))
        ahead.append(retrieve_ahead(data, learned))
    print(f"paths cover {paths.covered:.2f} of the distance with {paths.nonzeros:.1f} operators\n")
    print(
        "| move of length |" + " | ".join(map(str, LENGTHS)) + " |\n|---|" + "---|" * len(LENGTHS)
    )
    for name in kept[0]:
        cells = [_interval([k[name][i] for k in kept]) for i in range(len(LENGTHS))]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\n| moved copies of five labels per class | accuracy |\n|---|---|")
    for name in accuracy[0]:
        print(f"| {name} | {_interval([a[name] for a in accuracy])} |")
    for name in ahead[0]:
        print(f"frame as far ahead again, {name}: {_interval([a[name] for a in ahead])}")


def _interval(values: list[float]) -> str:
    half = 1.96 * np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{100 * np.mean(values):.1f} ± {100 * half:.1f}"


def main() -> None:
    """Read both sets and study each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fruits", type=Path)
    parser.add_argument("--celeba", type=Path)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--cache", type=Path, default=Path("runs/embeddings"))
    wanted = parser.parse_args()
    wanted.cache.mkdir(parents=True, exist_ok=True)
    if wanted.fruits is not None:
        images, traits, held_out, frame = read_fruits(wanted.fruits, wanted.images)
        z = reduce(embed(images, wanted.cache / f"fruits-{len(images)}.npy"), held_out)
        print(f"## Fruits on a turntable, {len(z)} images, object kept\n")
        study(Vectors(z, traits, held_out, frame), wanted.seeds, wanted.steps)
    if wanted.celeba is not None:
        images, traits, held_out = read_celeba(wanted.celeba, wanted.images)
        z = reduce(embed(images, wanted.cache / f"celeba-{len(images)}.npy"), held_out)
        print(f"\n## CelebA, {len(z)} images, mean of {len(TRAITS)} attributes kept\n")
        study(Vectors(z, traits, held_out), wanted.seeds, wanted.steps)


if __name__ == "__main__":
    main()
