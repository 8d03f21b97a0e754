r"""Do learned operators recover a transformation that was measured?

    python benchmarks/ground_truth_study.py OUT --set turntable --data FRUITS.npz --seeds 0 1 2
    python benchmarks/ground_truth_study.py OUT --set yale --data YALE.npz --seeds 0 1 2
    python benchmarks/ground_truth_study.py OUT --set drawn

FRUITS.npz has `images`, `labels` (the object) and `angle_deg`; YALE.npz has `images`, `labels` (the
person), `azimuth_deg` and `elevation_deg`; `drawn` is a drawn turntable, the control. Nothing is
trained with an angle or a label. Angles choose and scale, on training rows, what stands for the
angle; scores come from blocks of angle and from objects (people) that nobody trained with.

Compared are operators learned from nearest neighbours, operators learned from pairs by time (the
upper bound: somebody knows which frame follows), straight lines in the same latents, and straight
lines in the latents of a contractive and a beta-variational autoencoder. Operators are learned
from a random start and from the best of many (`ground_truth.starts`). OUT/SET-seed-N holds the
trained networks and what is measured; a second call goes on where the first stopped. Everything is
collected in OUT/ground-truth-SET.json, and Markdown tables are printed.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ground_truth.measures import (
    Steps,
    along_generator,
    coefficients_of,
    cumulative,
    differences_of,
    fitted_generator,
    read_factor,
    smoothness,
    speeds,
    turn_on,
    whole_turns,
)
from ground_truth.models import NETWORK, QUICK, Lesson, encode, train_network, train_rival
from ground_truth.pictures import PAINTERS
from ground_truth.relight import relight
from ground_truth.sets import READERS, KnownSet
from ground_truth.starts import best_start
from torch import Tensor

import transop

RIVALS = ("cae", "beta-vae")
PAIRS = ("neighbours", "time")
COARSE = 8  # pixels to which photographs are averaged, to see coarse changes alone
BEST = ", best start"  # the first operator begins at the best of many fitted generators
SOFTER = 0.3  # of the sparsity weight: paths that are measured end nearer to their targets

Result = dict[str, Any]


def main() -> None:
    """Train and measure what is missing, collect everything and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", choices=READERS, required=True)
    parser.add_argument("--data", type=Path, help="not needed for the drawn set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--operators", type=int, nargs="+", default=[1, 16])
    parser.add_argument(
        "--best",
        type=int,
        nargs="+",
        default=[1, 16],
        help="numbers of operators that are also learned from the best of many starts",
    )
    parser.add_argument("--picture", type=Path, help="a file to draw the first seed to")
    parser.add_argument("--shown", default="neighbours, 16", help="whose flow the picture shows")
    parser.add_argument("--quick", action="store_true", help="tiny networks, to try the script")
    options = parser.parse_args()
    for seed in options.seeds:
        study(options, seed)
    if options.picture is not None:
        draw(options)
    found = [_stored(options, seed) for seed in options.seeds]
    collected = {"set": options.set, "seeds": dict(zip(options.seeds, found, strict=True))}
    file = options.out / f"ground-truth-{options.set}.json"
    file.write_text(json.dumps(collected, indent=1) + "\n")
    print(tables(found))


def study(options: argparse.Namespace, seed: int) -> None:
    """Measure one seed, part by part; parts that are stored already are left out."""
    known = READERS[options.set](options.data, seed)
    folder = _folder(options, seed)
    network = {**NETWORK, **(QUICK if options.quick else {})}
    n_steps = 20 if options.quick else 400
    model = train_network(known, seed, folder / "network", network)
    space = Space.of(model, known)

    @cache
    def lesson(kind: str, m: int) -> Lesson:
        return Lesson.of(space.z, known, kind, m, seed)

    def flows(kind: str, m: int, start: str) -> Result:
        pairs, facts, first = lesson(kind, m), {}, None
        if start == BEST:
            first, facts["starts as good"] = best_start(pairs.z0, pairs.z1, seed)
        learned = pairs.learn(n_steps, first)
        torch.save(learned.operators, folder / f"{kind}, {m}{start}.pt")
        facts |= {
            "covered": learned.paths.covered,
            "used": learned.paths.nonzeros,
            "living": int(learned.living.sum()),
            "weight": learned.sparsity_weight,
            "objective": float(learned.history[-n_steps // 10 :].mean()),
        }
        weight = SOFTER * learned.sparsity_weight
        return {"facts": facts} | measure_flow(known, space, learned.operators, weight, seed)

    def rival(method: str) -> Result:
        other = train_rival(method, known, seed, folder / method, network)
        return measure_lines(known, Space.of(other, known), seed)

    _part(folder, "straight lines", lambda: measure_lines(known, space, seed))
    if known.closed:
        for side in (known.images.shape[-1], COARSE):
            work = partial(measure_photographs, known, side)
            _part(folder, f"photographs, {side} pixels", work)
        for name, measure in (("all", measure_shared), ("each", measure_own)):
            work = partial(measure, known, space, seed)
            _part(folder, f"fitted with the angle, {name}", work)
    for kind, m, start in product(PAIRS, options.operators, ("", BEST)):
        if start == "" or m in options.best:
            _part(folder, f"operators, {kind}, {m}{start}", partial(flows, kind, m, start))
    for method in options.rivals:
        _part(folder, method, partial(rival, method))


@dataclass(frozen=True)
class Space:
    """Latents of all images at mean length one, and the way back to images."""

    z: Tensor
    unit: float
    decode: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, model: Any, known: KnownSet) -> "Space":
        """Encode all images; measure lengths on training images."""
        z = encode(model, known)
        unit = float(z[known.train].norm(dim=1).mean())

        def decode(points: Tensor) -> Tensor:
            with torch.no_grad():
                return torch.cat([model.decode(part * unit) for part in points.split(250)])

        return cls(z / unit, unit, decode)


def all_steps(known: KnownSet, seed: int) -> dict[str, Steps]:
    """Draw steps of training rows, held-out rows, and both parts of unseen objects.

    Unseen objects are calibrated on the first quarter of their turn (lights: on the left side),
    and scored on the rest.
    """
    angle = known.angles[known.unseen, 0]
    first = angle % 360 < 90 if known.closed else angle < 0
    rows = {
        "train": known.train,
        "held_out": known.blocks,
        "unseen": known.unseen[~first],
        "calibrate": known.unseen[first],
    }
    return {name: Steps.of(known, part, seed) for name, part in rows.items()}


def measure_lines(known: KnownSet, space: Space, seed: int) -> Result:
    """Measure differences along single directions, and straight lines."""
    features, steps = differences_of(space.z, known.train), all_steps(known, seed)
    found: Result = {
        factor: read_factor(features, number, **steps).scores
        for number, factor in enumerate(known.factors)
    }
    if not known.closed:
        return found | {"relight": relight(space.z, known, seed, decode=space.decode)}
    found["smoothness"] = smoothness(space.z, known, known.train)
    return found | {name: turn_on(space.z, known, rows) for name, rows in _held_out(known)}


def measure_photographs(known: KnownSet, side: int) -> Result:
    """Measure how smoothly the photographs themselves turn, before any network."""
    pixels = torch.from_numpy(known.images).float() / 255
    coarse = torch.nn.functional.adaptive_avg_pool2d(pixels, side).flatten(1)
    return {"smoothness": smoothness(coarse, known, known.train)}


def measure_flow(
    known: KnownSet, space: Space, operators: Tensor, weight: float, seed: int
) -> Result:
    """Measure coefficients of operators, whole turns, and moves of what was never seen."""
    z, steps = space.z, all_steps(known, seed)
    features = coefficients_of(operators, z, weight)
    readings = [read_factor(features, n, **steps) for n in range(len(known.factors))]
    found: Result = {f: r.scores for f, r in zip(known.factors, readings, strict=True)}
    if not known.closed:
        return found | {"relight": relight(z, known, seed, operators, features, space.decode)}
    rate, column = speeds(features, 0, steps["train"]), readings[0].column
    alone = {g: np.where(np.arange(len(c)) == column, c, 0) for g, c in rate.items()}
    trained = np.flatnonzero(np.isin(known.groups, known.groups[known.train]))
    found["cumulative"] = {
        "trained": cumulative(features, known, trained, column),
        "unseen": cumulative(features, known, known.unseen, column),
    }
    found["turn, best operator"] = whole_turns(operators, z, known, known.blocks, alone)
    found["turn, all operators"] = whole_turns(operators, z, known, known.blocks, rate)
    for name, rows in _held_out(known):
        found[name] = turn_on(z, known, rows, operators, features)
    return found


def measure_shared(known: KnownSet, space: Space, seed: int) -> Result:
    """Measure one generator for all objects, fitted with the angle."""
    steps = all_steps(known, seed)
    generator = fitted_generator(space.z, steps["train"])
    scores = read_factor(along_generator(generator, space.z), 0, **steps).scores
    rate = {int(g): np.ones(1) for g in np.unique(known.groups)}
    turn = whole_turns(generator[None], space.z, known, known.blocks, rate)
    return {"angle": scores, "turn, best operator": turn}


def measure_own(known: KnownSet, space: Space, seed: int) -> Result:
    """Measure a generator for each object, fitted with the angle; give medians over objects."""
    scores, turns = [], []
    for group in np.unique(known.groups[known.train]):
        mine = [part[known.groups[part] == group] for part in (known.train, known.blocks)]
        own, held_out = (Steps.of(known, part, seed) for part in mine)
        generator = fitted_generator(space.z, own)
        features = along_generator(generator, space.z)
        scores.append(read_factor(features, 0, own, held_out, held_out, own).scores)
        rate = {int(group): np.ones(1)}
        turns.append(whole_turns(generator[None], space.z, known, mine[1], rate))
    seen = ("train one", "held-out one")
    return {
        "angle": {key: float(np.median([one[key] for one in scores])) for key in seen},
        "turn, best operator": {k: float(np.median([t[k] for t in turns])) for k in turns[0]},
    }


def draw(options: argparse.Namespace) -> None:
    """Draw what the flow of some operators does, for the first seed."""
    seed = options.seeds[0]
    known, folder = READERS[options.set](options.data, seed), _folder(options, seed)
    space = Space.of(transop.ManifoldAutoencoder.from_pretrained(folder / "network"), known)
    operators = torch.load(folder / f"{options.shown}.pt", weights_only=True)
    part = folder / "parts" / f"operators, {options.shown}.json"
    facts = json.loads(part.read_text())["facts"]
    features = coefficients_of(operators, space.z, SOFTER * facts["weight"])
    PAINTERS[options.set](options.picture, known, space.z, space.decode, operators, features)


def _folder(options: argparse.Namespace, seed: int) -> Path:
    folder: Path = options.out / f"{options.set}-seed-{seed}"
    return folder


def _held_out(known: KnownSet) -> list[tuple[str, np.ndarray]]:
    return [("ahead, held-out", known.blocks), ("ahead, unseen", known.unseen)]


def _part(folder: Path, name: str, work: Callable[[], Result]) -> None:
    """Do a part of the study unless its numbers are stored."""
    file = folder / "parts" / f"{name}.json"
    if file.exists():
        return
    began = time.process_time()
    found = work()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rounded(found), indent=1))
    print(f"{folder.name}: {name}, {time.process_time() - began:.0f} CPU seconds", flush=True)


def _stored(options: argparse.Namespace, seed: int) -> Result:
    folder = _folder(options, seed) / "parts"
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def rounded(value: Any) -> Any:
    """Keep four digits of every number; what is not finite becomes None."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if np.isfinite(value) else None


def tables(found: list[Result]) -> str:
    """Write Markdown tables of every measurement: the mean over seeds, and the range."""
    flat = [dict(_leaves(one)) for one in found]
    keys = dict.fromkeys(key for one in flat for key in one)
    measurements = dict.fromkeys(key[1:-1] for key in keys)
    parts = []
    for measurement in measurements:
        rows = dict.fromkeys(key[0] for key in keys if key[1:-1] == measurement)
        names = list(dict.fromkeys(key[-1] for key in keys if key[1:-1] == measurement))
        head = " / ".join(measurement) or "numbers"
        parts.append(f"\n| {head} | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
        for row in rows:
            cells = [cell([one.get((row, *measurement, name)) for one in flat]) for name in names]
            parts.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(parts)


def _leaves(tree: Result, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def cell(values: list[float | None]) -> str:
    """Give the mean over seeds, and the smallest and largest if there are several."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(known) == 1:
        return f"{known[0]:.2f}"
    return f"{np.mean(known):.2f} ({min(known):.2f} to {max(known):.2f})"


if __name__ == "__main__":
    main()
