"""Model files: hostile descriptions under a valid digest, damaged files of a run."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transop
from attacks import Attack, Case, Fell, command_line, damage, plain_value
from transop.artifacts import load_state, save_state
from transop.config import load_settings
from transop.errors import UserError
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier


def small_run(folder: Path, data: Path) -> Path:
    """Write a run with everything that commands read from one, quickly and untrained."""
    size = {"image_size": 16, "channels": 1}
    recipe = {"network": "lenet", "numbers": {**size, "n_classes": 2}}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transop.ManifoldAutoencoder(
            build_autoencoder("conv", latent_dimension=3, width=2, **size),
            transop.TransportOperators(2, 3, generator=torch.Generator().manual_seed(0)),
            latent_scale=1.0,
            coefficient_encoder=CoefficientEncoder(3, 2, hidden=(4,)),
            classifier=build_classifier("lenet", **recipe["numbers"]),
            classifier_recipe=recipe,
            phases=("autoencoder", "operators", "classifier", "coefficient_encoder"),
            class_names=("a", "b"),
        )
    # The solver is compiled here, once: that may take longer than a case is given.
    model.infer(torch.zeros(model.image_shape), torch.ones(model.image_shape))
    folder.mkdir()
    model.save_pretrained(folder)
    (folder / "config.toml").write_text(load_settings("demo", [f"data.source={data}"]).to_toml())
    records = [{"phase": "operators", "step": step, "loss": 1.0 / step} for step in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "phases.json").write_text(json.dumps({"autoencoder": {"seconds": 1.0}}))
    (folder / "environment.json").write_text(json.dumps({"python": "3.11", "seed": 0}))
    return folder


class Models(Attack):
    """Open models through `from_pretrained` and runs through `transop report`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        data = folder / "data.npz"
        np.savez(data, images=np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8))
        self.good = small_run(folder / "good", data)
        self.state = load_state(self.good / "model.safetensors", kind="model")

    def case(self, chance: random.Random) -> Case:
        """Spoil the description, or the bytes of a file."""
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.good, run)
        if chance.random() < 0.6:
            return self._described(chance, run)
        files = sorted(file for file in run.iterdir() if file.is_file())
        file = chance.choice(files)
        if chance.random() < 0.7:
            file.write_bytes(damage(file.read_bytes(), chance))
        else:
            file.write_text(json.dumps(_deep(chance)), "utf-8")
        name = f"spoiled {file.name}"
        if chance.random() < 0.5:
            return name, lambda: self._open(run)
        return f"{name}, report", lambda: command_line(["report", str(run)])

    def _described(self, chance: random.Random, run: Path) -> Case:
        config = json.loads((run / "config.json").read_text())
        names = [_spoil(config, chance) for _ in range(chance.choice((1, 1, 1, 2)))]
        state = {**self.state, "config": config}
        try:
            save_state(run / "model.safetensors", state, kind="model")
            (run / "config.json").write_text(json.dumps(config))
        except (UserError, ValueError, TypeError, OverflowError):
            names.append("(cannot be written)")
        name = f"description {', '.join(names)}"[:200]
        return name, lambda: self._open(run)

    def _open(self, run: Path) -> None:
        """Open a model; what is opened must be able to work."""
        model = transop.ManifoldAutoencoder.from_pretrained(run)
        image = model.reconstruct(torch.zeros(model.image_shape))
        if not bool(torch.isfinite(image).all()):
            raise Fell("accepted nonsense", "the reconstruction is not finite")
        model.classify(torch.zeros(model.image_shape))


def _spoil(tree: dict[str, Any], chance: random.Random) -> str:
    """Replace, drop or add one entry somewhere in a description."""
    place: Any = tree
    path = []
    while True:
        key = chance.choice(list(place))
        path.append(str(key))
        if isinstance(place[key], dict) and place[key] and chance.random() < 0.8:
            place = place[key]
            continue
        if chance.random() < 0.1:
            del place[key]
            return f"{'.'.join(path)} missing"
        if chance.random() < 0.1:
            key = chance.choice(("x", "__class__", "device", ""))
        name, value = plain_value(chance)
        place[key] = value
        return f"{'.'.join(path)} = {name}"


def _deep(chance: random.Random) -> Any:
    value: Any = plain_value(chance)[1]
    for _ in range(chance.choice((0, 1, 2, 400))):
        value = chance.choice(([value], {"a": value}))
    return str(value) if isinstance(value, int) and abs(value) > 10**300 else value
