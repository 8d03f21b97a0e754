"""Arguments of the command line, beside a small trained run."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from PIL import Image

from attacks import Attack, Case, command_line
from attacks.models import small_run
from transop.config import load_settings

_TINY = ["data.limit=64", "autoencoder.width=8", "autoencoder.latent_dimension=3"]
_TINY += ["autoencoder.epochs=1", "autoencoder.batch_size=16", "operators.n_operators=2"]
_PHASES = ("operators", "fine_tuning", "classifier", "coefficient_encoder")

_NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "2.5",
    "x",
    "",
    "1e9",
    "nan",
    "inf",
    "-inf",
    "99999999999999999999",
]
_NUMBERS += ["0x10", "1_0", " 1", "١", "True", "None", "9" * 5000]
_PATHS = ["", "none", "x" * 300, "a/" * 1200 + "b"]
_PATHS += ["..", "~", "~nobody/x", "*", "-", "--", "http://127.0.0.1:9/x", "{run}", "{run}/x/y"]
_PATHS += ["{png}", "{folder}", "{fifo}", "{loop}", "{run}/config.json", "owner/name"]
_WORDS = ["", "x", "auto", "é", "😀", "\x1b[31m", "%s", "$(true)", "; true", "x" * 5000, "cuda:7"]
_WORDS += ["mps", "cpu", "meta", "gpu", "os:system", "json:loads", "nowhere:nothing", ":", "1,2"]
_TIMES = ["0:2:9", "0:2:0", "0:2:-1", "0:2:1e9", "a:b:c", "nan", "inf", "0,inf", "::", "0:1:2:3"]
_TIMES += ["0:1:99999999", "", ",", "1e308,-1e308"]

# Command, what each position takes, and the options with what each takes.
_COMMANDS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "train": (
        "recipe",
        {"--seed": _NUMBERS, "--device": _WORDS, "--devices": _NUMBERS}
        | {"--out": _PATHS, "--set": _WORDS, "--resume": [], "--force": [], "--json": []},
    ),
    "path": ("run png png", {"--t": _TIMES, "--out": _PATHS, "--json": []}),
    "augment": (
        "run folder out",
        {"-n": _NUMBERS, "--p": _NUMBERS, "--scales": _WORDS, "--multiplier": _NUMBERS}
        | {"--steps": _NUMBERS, "--guard": _NUMBERS, "--residual": _NUMBERS, "--seed": _NUMBERS}
        | {"--contact-sheet": _PATHS, "--force": [], "--json": []},
    ),
    "invariance": (
        "run",
        {"--images": _NUMBERS, "--classifier": _WORDS, "--weights": _PATHS, "--json": []},
    ),
    "report": ("run", {"--out": _PATHS}),
    "data": (
        "source",
        {"--path": _PATHS, "--image-size": _NUMBERS, "--channels": _NUMBERS, "--json": []},
    ),
    "explore": ("none", {"--port": _NUMBERS, "--host": _WORDS}),
}
# What would be served, or searched for images, until the clock runs out.
_HONEST = {"explore": ("{run}",), "data": ("/", "..", "~"), "augment": ("/", "..", "~")}
_FEW = {"-n", "--steps", "--image-size", "--images"}  # whose large values are honest work


class Arguments(Attack):
    """Call commands in this process, with one to three arguments that make no sense."""

    def __init__(self, folder: Path) -> None:
        import os

        super().__init__(folder)
        pictures = folder / "pictures"
        pictures.mkdir()
        image = np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8)
        Image.fromarray(image).save(pictures / "a.png")
        data = folder / "data.npz"
        images = np.random.default_rng(1).integers(0, 256, (100, 16, 16), np.uint8)
        np.savez(data, images=images, labels=np.arange(100) % 2)
        recipe = folder / "tiny.toml"
        epochs = [f"{phase}.epochs=0" for phase in _PHASES]
        recipe.write_text(load_settings("demo", [f"data.source={data}", *_TINY, *epochs]).to_toml())
        os.mkfifo(folder / "fifo.npz")
        (folder / "loop").symlink_to(folder / "loop")
        self.places = {
            "run": str(small_run(folder / "run", data)),
            "png": str(pictures / "a.png"),
            "folder": str(pictures),
            "fifo": str(folder / "fifo.npz"),
            "loop": str(folder / "loop"),
            "recipe": str(recipe),
            "source": str(data),
            "none": str(folder / "none"),
        }

    def case(self, chance: random.Random) -> Case:
        """Choose a command and spoil some of its arguments."""
        name = chance.choice(list(_COMMANDS))
        positions, options = _COMMANDS[name]
        out = str(self.folder / f"out-{chance.getrandbits(60):x}")
        places = {**self.places, "out": out}
        arguments = [places[position] for position in positions.split()]
        if chance.random() < 0.35:
            place = chance.randrange(len(arguments))
            wrong = [word for word in _PATHS + _WORDS if word not in _HONEST.get(name, ())]
            arguments[place] = chance.choice(wrong).format(**places)
        for option in chance.sample(list(options), chance.randrange(min(3, len(options)) + 1)):
            values = options[option]
            if option in _FEW:
                values = [value for value in values if not value.strip("-").startswith("9")]
                values = [value for value in values if value != "1e9"]
            arguments += [option]
            if values and chance.random() < 0.97:
                arguments += [chance.choice(values).format(**places)]
        if name == "train" and "--out" not in arguments:
            arguments += ["--out", out]
        if name == "data":
            arguments += ["--offline"]
        if name == "explore":
            arguments += ["--no-browser"]
        shown = " ".join(a.replace(str(self.folder), ".")[:40] for a in arguments)
        return f"{name} {shown}"[:200], lambda: command_line([name, *arguments])
