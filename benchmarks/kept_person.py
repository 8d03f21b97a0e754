"""Is a moved face still the same person? Kept identity and attributes at equal length of move.

    python benchmarks/kept_person.py OUT RUN [RUN ...] --identities identity_CelebA.txt

RUN was trained on CelebA. A verification measure (`Verifier`) is fitted on the people of the
training split. Faces of the test split, who are other people, are then moved by the same length in
several ways and decoded, and the measure compares each decoded face with other photographs of the
same person and of other people. OUT gets the scores of all ways as JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import transop
from transop.data import ImageDataset
from transop.errors import DataError
from transop.evaluation import FIXED, factor_for_length
from transop.networks import prefer_channels_last
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.operators import laplace_from_uniform, transport
from transop_paper.attributes.network import attribute_losses, build_attribute_net

LENGTHS = (0.1, 0.2, 0.3, 0.4)
_CHUNK = 100
_EPOCHS, _BATCH, _RATE = 6, 100, 4e-3  # of the network that tells all forty attributes
_KEPT, _LDA = 400, 100  # principal and discriminant directions
_RIDGE = 0.1  # added to the scatter within people, as a share of its mean
_NEIGHBOURS = 5


def read_people(file: Path, dataset: ImageDataset) -> np.ndarray:
    """Read the number of the person on every image; the file has the order of the images."""
    people = [line.split()[1] for line in file.read_text().splitlines() if line.strip()]
    if len(people) != len(dataset.images):
        raise DataError(
            f"--identities {file} lists {len(people)} images, the run has {len(dataset.images)}; "
            "give the identity file of the same copy"
        )
    return np.array(people, dtype=np.int64)


class Verifier:
    """Says how alike two faces are: linear discriminant analysis on features of two networks.

    The features are those of EfficientNet-Lite0 and of a small network that tells CelebA's forty
    attributes. Directions along which photographs of one person differ count little, directions
    along which people differ count much. Photographs and reconstructions are fitted together, so
    that it can compare one kind with the other.
    """

    def __init__(self, dataset: ImageDataset) -> None:
        self._dataset = dataset
        self._general = load_efficientnet_lite0()
        prefer_channels_last(self._general)
        self._attributes = train_attributes(dataset)
        self._mean = self._deviation = self._directions = torch.empty(0)

    @torch.inference_mode()
    def features(self, images: Tensor) -> Tensor:
        """Describe images by both networks."""
        found = [
            torch.cat([self._general.features(x), self._attributes.trunk(x)], 1)
            for x in images.contiguous(memory_format=torch.channels_last).split(_CHUNK)
        ]
        return torch.cat(found).half().float()

    def fit(self, features: Tensor, people: np.ndarray) -> None:
        """Find the directions that tell people apart."""
        self._mean, self._deviation = features.mean(0), features.std(0).clamp_min(1e-4)
        x = (features - self._mean) / self._deviation
        _, basis = torch.linalg.eigh(x.T @ x)
        basis = basis[:, -_KEPT:]
        x = x @ basis
        _, index = np.unique(people, return_inverse=True)
        groups = torch.from_numpy(index)
        count = torch.bincount(groups).float()
        means = torch.zeros(len(count), x.shape[1]).index_add_(0, groups, x) / count[:, None]
        within = x - means[groups]
        scatter = within.T @ within / (len(x) - len(count))
        scatter += _RIDGE * scatter.diagonal().mean() * torch.eye(len(scatter))
        values, vectors = torch.linalg.eigh(scatter)
        whiten = vectors / values.sqrt()
        several = means[count > 1] @ whiten
        _, best = torch.linalg.eigh(several.T @ several)
        self._directions = basis @ whiten @ best[:, -_LDA:]

    def embed(self, features: Tensor) -> Tensor:
        """Give vectors of unit length whose products say how alike faces are."""
        x = ((features - self._mean) / self._deviation) @ self._directions
        return x / x.norm(dim=1, keepdim=True)


def train_attributes(dataset: ImageDataset) -> Any:
    """Train the small network on the photographs of the training split."""
    assert dataset.attributes is not None
    assert dataset.meta.attribute_names is not None
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_attribute_net(dataset.meta.attribute_names, trunk="small")
        prefer_channels_last(network)
        optimiser = torch.optim.Adam(network.parameters(), _RATE, weight_decay=1e-4)
        rows = torch.from_numpy(dataset.splits["train"])
        n_steps = _EPOCHS * (len(rows) // _BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, n_steps)
        for _ in range(n_steps):
            chosen = rows[torch.randint(len(rows), (_BATCH,), generator=generator)].numpy()
            images = dataset.batch(chosen).contiguous(memory_format=torch.channels_last)
            truth = torch.from_numpy(dataset.attributes[chosen])
            loss = attribute_losses(network(images), truth).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return network.eval()


@dataclass(frozen=True)
class Gallery:
    """Photographs to compare with, as the verifier sees them."""

    vectors: Tensor
    people: Tensor
    sex: Tensor

    def score(self, probes: Tensor, *, alike: bool = False) -> tuple[float, float]:
        """Say how often a photograph of the same person scores above one of someone else.

        Probe number i shows the person of photograph i, which itself is left out. With ``alike``
        the others are of the same sex. The second number is half the 95 % interval over people.
        """
        shares = torch.full((len(probes),), torch.nan)
        likeness = probes @ self.vectors.T
        for i, row in enumerate(likeness):
            same = self.people == self.people[i]
            others = ~same
            if alike:
                others &= self.sex == self.sex[i]
            same[i] = False
            if bool(same.any()):
                higher = row[same][:, None] > row[others][None]
                shares[i] = higher.float().mean()
        known = ~shares.isnan()
        means = torch.stack(
            [
                shares[known & (self.people == person)].mean()
                for person in self.people[known].unique()
            ]
        )
        half = 1.96 * means.std() / len(means) ** 0.5
        return float(shares[known].mean()), float(half)


def moved_points(
    run: transop.Run, points: Tensor, training: Tensor, length: float
) -> dict[str, Tensor]:
    """Move points in every way, as far as the coefficient encoder's moves of a mean length go."""
    operators = run.model.operators.operators.detach()
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(len(points), len(operators), generator=generator)
    ends = {}
    scales = {"coefficient encoder": run.model.scales_at(points)}
    scales[FIXED] = torch.ones_like(uniform)
    for name, scale in scales.items():
        factor = factor_for_length(operators, points, scale, length, uniform=uniform)
        ends[name] = transport(operators, laplace_from_uniform(scale * factor, uniform), points)
    far = (ends["coefficient encoder"] - points).norm(dim=1, keepdim=True)
    near = torch.cdist(points, training).topk(_NEIGHBOURS, largest=False).indices
    drawn = torch.randint(_NEIGHBOURS, (len(points), 1), generator=generator)
    anyone = torch.randint(len(training), (len(points),), generator=generator)
    directions = {
        "straight line to a neighbour": training[near.gather(1, drawn)[:, 0]] - points,
        "straight line to any face": training[anyone] - points,
        "random direction": torch.randn(points.shape, generator=generator),
    }
    for name, direction in directions.items():
        ends[name] = points + far * direction / direction.norm(dim=1, keepdim=True)
    return ends


@torch.inference_mode()
def measure(run: transop.Run, verifier: Verifier, gallery: Gallery, rows: np.ndarray) -> Any:
    """Score every way of moving at every length."""
    model, dataset = run.model, run.dataset
    names = list(dataset.meta.attribute_names or ())
    columns = [names.index(name) for name in model.attribute_names or ()]
    truth = torch.from_numpy(dataset.attributes[rows][:, columns] > 0)  # type: ignore[index]
    points, training = run.latents(rows), run.latents(dataset.splits["train"])

    def judge(ends: Tensor) -> dict[str, Any]:
        decoded = torch.cat([model.decode(z) for z in ends.split(_CHUNK)])
        probes = verifier.embed(verifier.features(decoded))
        chances = torch.cat([model.attributes_at(z) for z in ends.split(_CHUNK)])
        return {
            "person": gallery.score(probes),
            "person_same_sex": gallery.score(probes, alike=True),
            "attributes": float(((chances > 0.5) == truth).float().mean()),
            "length": float(((ends - points).norm(dim=1) / points.norm(dim=1)).mean()),
        }

    found: dict[str, Any] = {"unmoved": judge(points), "moves": {}}
    for length in LENGTHS:
        for name, ends in moved_points(run, points, training, length).items():
            found["moves"].setdefault(name, []).append(judge(ends))
            print(name, length, found["moves"][name][-1], flush=True)
    return found


def fitted_verifier(run: transop.Run, people: np.ndarray) -> tuple[Verifier, dict[str, Any]]:
    """Fit the measure on training people; test it on people of the validation split."""
    dataset = run.dataset
    verifier = Verifier(dataset)

    def both(split: str) -> tuple[Tensor, Tensor, np.ndarray]:
        rows = dataset.splits[split]
        found: tuple[list[Tensor], list[Tensor]] = ([], [])
        for start in range(0, len(rows), _CHUNK):
            images = dataset.batch(rows[start : start + _CHUNK])
            found[0].append(verifier.features(images))
            found[1].append(verifier.features(run.model.reconstruct(images)))
        return torch.cat(found[0]), torch.cat(found[1]), rows

    photographs, decoded, rows = both("train")
    verifier.fit(torch.cat([photographs, decoded]), np.tile(people[rows], 2))
    facts = {}
    for split in ("validation", "test"):
        photographs, decoded, rows = both(split)
        gallery = make_gallery(verifier, dataset, people, rows, photographs)
        for name, features in (("photographs", photographs), ("reconstructions", decoded)):
            probes = verifier.embed(features)
            facts[f"{split} {name}"] = {
                "person": gallery.score(probes),
                "person_same_sex": gallery.score(probes, alike=True),
            }
    return verifier, facts


def make_gallery(
    verifier: Verifier,
    dataset: ImageDataset,
    people: np.ndarray,
    rows: np.ndarray,
    features: Tensor | None = None,
) -> Gallery:
    """Show photographs to the verifier."""
    if features is None:
        features = verifier.features(dataset.batch(rows))
    assert dataset.attributes is not None
    male = list(dataset.meta.attribute_names or ()).index("Male")
    return Gallery(
        verifier.embed(features),
        torch.from_numpy(people[rows]),
        torch.from_numpy(dataset.attributes[rows, male]),
    )


def main() -> None:
    """Fit, measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--identities", type=Path, required=True)
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--images", type=int, default=3000)
    options = parser.parse_args()
    found = []
    for path in options.runs:
        run = transop.Run.open(path)
        people = read_people(options.identities, run.dataset)
        verifier, facts = fitted_verifier(run, people)
        print(json.dumps(facts, indent=1), flush=True)
        rows = run.dataset.splits[options.split][: options.images]
        gallery = make_gallery(verifier, run.dataset, people, rows)
        scores = measure(run, verifier, gallery, rows)
        found.append(
            {"run": run.name, "seed": run.settings.runtime.seed, "measure": facts} | scores
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"split": options.split, "lengths": LENGTHS, "runs": found}
    options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
