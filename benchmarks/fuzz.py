"""Feed damaged and made-up files and settings to every reader, and count how each case ends.

    python benchmarks/fuzz.py --cases 12000 --json docs/measurements/fuzz.json

A case may be accepted, or refused by a `UserError` with a message. Anything else is a failure:
another exception, more than ten seconds, or an attempt to run code (a pickle looking for a class, a
program started, a file compiled). Half the cases damage bytes of a good file; the others are drawn
by hypothesis, which also makes files that are whole but absurd.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from PIL import Image

from transop.artifacts import RunFolder, load_state, save_state
from transop.config import Settings, load_settings
from transop.data import load_dataset
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop.pairs.given import Positions, read_given

_SECONDS = 10
# Audit events of the interpreter that mean somebody runs code out of the data.
_FORBIDDEN = {"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"}
_watching = False
_attempts: list[str] = []

Reader = Callable[[Path], Any]


class Hang(BaseException):
    """A case took too long."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in _FORBIDDEN:
        _attempts.append(f"{event} {arguments!r:.80}")


def _ring(number: int, frame: Any) -> None:
    raise Hang


class Tally:
    """How the cases of every reader ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = {}
        self.failures: list[str] = []
        self.slowest = 0.0

    def run(self, surface: str, read: Callable[[], Any]) -> None:
        """Run one case and note how it ended."""
        global _watching
        counter = self.outcomes.setdefault(surface, Counter())
        _attempts.clear()
        start = time.monotonic()
        signal.alarm(_SECONDS)
        try:
            _watching = True
            read()
            outcome = "accepted"
        except UserError as error:
            outcome = "refused" if str(error).strip() else "refused without a word"
        except Hang:
            outcome = "hang"
        except Exception:
            outcome = "traceback"
            self.failures.append(f"{surface}: {traceback.format_exc(limit=8)}")
        finally:
            _watching = False
            signal.alarm(0)
        if _attempts:
            outcome = "ran code"
            self.failures.append(f"{surface}: {_attempts[0]}")
        counter[outcome] += 1
        self.slowest = max(self.slowest, time.monotonic() - start)


def damage(content: bytes, chance: random.Random) -> bytes:
    """Change a file a little: flip, overwrite, cut, repeat, insert or drop bytes."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        if not changed:
            return chance.randbytes(chance.randrange(64))
        place = chance.randrange(len(changed))
        size = chance.choice((1, 1, 2, 4, 8, 64))
        kind = chance.randrange(7)
        if kind == 0:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[place : place + size] = chance.randbytes(size)
        elif kind == 2:
            del changed[place:]
        elif kind == 3:
            changed[place:place] = changed[place : place + size]
        elif kind == 4:
            del changed[place : place + size]
        elif kind == 5:
            extreme = chance.choice((0, 1, 2**31 - 1, 2**32 - 1))
            changed[place : place + 4] = extreme.to_bytes(4, chance.choice(("big", "little")))
        else:
            changed[place : place + size] = b"\xff" * size
    return bytes(changed)


def good_files(folder: Path) -> dict[str, tuple[Reader, list[Path]]]:
    """Write one or more good files for every reader."""
    images = np.random.default_rng(0).integers(0, 256, (20, 16, 16), np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(20) % 2)
    np.savez_compressed(folder / "packed.npz", x_train=images, y_train=np.arange(20) % 3)
    np.save(folder / "images.npy", images.astype(np.float32) / 255)
    state = {"x": torch.ones(3, 4), "step": 3, "nested": {"y": [torch.zeros(2), None]}}
    save_state(folder / "state.safetensors", state, kind="checkpoint")
    (folder / "settings.toml").write_text(Settings().to_toml())
    np.savez(folder / "given.npz", pairs=np.stack([np.arange(19), np.arange(1, 20)], 1))
    (folder / "given.csv").write_text("start,end\n" + "".join(f"{i},{i + 1}\n" for i in range(19)))
    loaded = lambda path: load_dataset(path, offline=True)  # noqa: E731
    positions = Positions(np.arange(20), 20)
    return {
        "npz": (loaded, [folder / "images.npz", folder / "packed.npz"]),
        "npy": (loaded, [folder / "images.npy"]),
        "zip": (loaded, [_zip_of_pictures(folder, images)]),
        "idx": (_in_folder(loaded, "train-images-idx3-ubyte"), [_idx(folder, images)]),
        "picture": (_in_folder(loaded, None), _pictures(folder, images[0])),
        "safetensors": (
            lambda path: load_state(path, kind="checkpoint"),
            [folder / "state.safetensors"],
        ),
        "settings": (load_settings, [folder / "settings.toml"]),
        "given pairs": (
            lambda path: read_given(path, positions, 3),
            [folder / "given.npz", folder / "given.csv"],
        ),
    }


def _zip_of_pictures(folder: Path, images: np.ndarray) -> Path:
    with zipfile.ZipFile(folder / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, image in enumerate(images[:12]):
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, "PNG")
            archive.writestr(f"{'ab'[number % 2]}/{number}.png", stream.getvalue())
    return folder / "images.zip"


def _idx(folder: Path, images: np.ndarray) -> Path:
    header = struct.pack(">HBB3I", 0, 8, 3, *images.shape)
    (folder / "images-idx3-ubyte").write_bytes(header + images.tobytes())
    return folder / "images-idx3-ubyte"


def _pictures(folder: Path, image: np.ndarray) -> list[Path]:
    grey = Image.fromarray(image)
    colour = Image.merge("RGB", [grey, grey.rotate(90), grey.rotate(180)])
    wanted = {
        "grey.png": grey,
        "colour.png": colour,
        "palette.gif": colour.quantize(16),
        "photo.jpg": colour,
        "print.jpg": colour.convert("CMYK"),
        "lossless.webp": colour,
        "deep.tif": Image.fromarray(image.astype(np.uint16) * 257),
        "plain.bmp": colour,
        "old.tga": colour,
        "text.ppm": colour,
        "wave.jp2": colour,
    }
    for name, picture in wanted.items():
        picture.save(folder / name)
    return [folder / name for name in wanted]


def _in_folder(read: Reader, name: str | None) -> Reader:
    """Read a file as the only one of a folder, under a name of its own or its usual one."""

    def read_alone(path: Path) -> Any:
        with tempfile.TemporaryDirectory(dir=path.parent) as alone:
            os.link(path, Path(alone) / (name or path.name))
            return read(Path(alone))

    return read_alone


def good_run(folder: Path) -> Path:
    """Write a small run folder with everything that commands read from one."""
    run = RunFolder(folder / "run")
    network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=3, width=2)
    ManifoldAutoencoder(network, TransportOperators(2, 3)).save_pretrained(run.path)
    run.config_file.write_text(Settings().to_toml())
    run.append_metrics({"phase": "operators", "step": 1, "loss": 0.5})
    run.mark_finished("autoencoder", seconds=1.0)
    run.save_checkpoint("operators", 1, {"now": {"step": 1}, "good": {}})
    run.save_checkpoint("operators", 2, {"now": {"step": 2}, "good": {}})
    return run.path


def read_run(path: Path) -> None:
    """Read everything of a run folder."""
    run = RunFolder(path)
    run.read_metrics()
    run.rewind_metrics("operators", 0)
    run.load_checkpoint("operators")
    for read in (
        run.finished_phases,
        lambda: load_settings(run.config_file),
        lambda: ManifoldAutoencoder.from_pretrained(path),
    ):
        try:
            read()
        except UserError as error:
            last = error
    if "last" in locals():
        raise last


def damage_files(tally: Tally, folder: Path, n_cases: int, chance: random.Random) -> None:
    """Read damaged copies of good files, each reader as often as the others."""
    surfaces = good_files(folder)
    run = good_run(folder)
    parts = [file for file in run.rglob("*") if file.is_file() and not file.name.startswith(".")]
    originals = {file: file.read_bytes() for file in parts}
    names = [*surfaces, "run folder"]
    for case in range(n_cases):
        name = names[case % len(names)]
        if name == "run folder":
            victim = chance.choice(parts)
            victim.write_bytes(damage(originals[victim], chance))
            tally.run(name, lambda: read_run(run))
            for file, content in originals.items():
                file.write_bytes(content)
            continue
        read, files = surfaces[name]
        file = chance.choice(files)
        copy = folder / f"damaged{file.suffix}"
        copy.write_bytes(damage(file.read_bytes(), chance))
        tally.run(name, lambda read=read, copy=copy: read(copy))
        copy.unlink()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [f"{s}.{k}" for s, v in Settings() if hasattr(v, "model_fields_set") for k, _ in v]
)


def absurd_settings(tally: Tally, folder: Path) -> Callable[[Any], None]:
    """Make up overrides of settings, of known and unknown keys."""

    def case(changes: list[tuple[str, Any]]) -> None:
        texts = [f"{key}={json.dumps(value, default=str)}" for key, value in changes]
        tally.run("settings made up", lambda: load_settings("demo", texts))

    return given(st.lists(st.tuples(_KEYS | st.text(max_size=12), _VALUES), max_size=3))(case)


def absurd_arrays(tally: Tally, folder: Path) -> Callable[[Any], None]:
    """Make up numpy files of any type and shape."""
    kinds = ["u1", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "?", "S3", "U2", "O", "M8[s]"]
    shapes = st.lists(st.integers(0, 6), max_size=5).map(tuple)
    options = st.tuples(
        st.sampled_from(kinds), shapes, st.sampled_from(kinds), shapes, st.floats(), st.booleans()
    )

    def case(drawn: Any) -> None:
        kind, shape, label_kind, label_shape, value, labelled = drawn
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                arrays = {"images": np.full(shape, value).astype(kind)}
                if labelled:
                    arrays["labels"] = np.full(label_shape, value).astype(label_kind)
            except (ValueError, OverflowError):
                return
        np.savez(folder / "made.npz", **arrays)
        tally.run("npz made up", lambda: load_dataset(folder / "made.npz"))

    return given(options)(case)


def absurd_zips(tally: Tally, folder: Path) -> Callable[[Any], None]:
    """Make up archives of odd names, contents and declared sizes."""
    names = st.text(max_size=12) | st.sampled_from(
        ["../x.png", "/x.png", "a/../../x.png", "C:\\x.png", "x.png/", ".x.png", "a/b.jpg", "x.png"]
    )
    contents = st.binary(max_size=40) | st.just(b"\x89PNG\r\n\x1a\n" + bytes(30))
    entries = st.lists(st.tuples(names, contents, st.integers(0, 2**32 - 1)), max_size=4)

    def case(drawn: list[tuple[str, bytes, int]]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of equal names
            with zipfile.ZipFile(folder / "made.zip", "w") as archive:
                for name, content, mode in drawn:
                    info = zipfile.ZipInfo(name or "x")
                    info.external_attr = mode
                    archive.writestr(info, content)
        tally.run("zip made up", lambda: load_dataset(folder / "made.zip"))

    return given(entries)(case)


def absurd_states(tally: Tally, folder: Path) -> Callable[[Any], None]:
    """Make up safetensors files with valid form and any notes."""
    from safetensors.torch import save

    notes = st.dictionaries(
        st.sampled_from(["format", "format_version", "kind", "state", "digest"]),
        st.sampled_from(["transop", "1", "999", "-1", "checkpoint", "{}", "[]", "null"])
        | st.sampled_from(['{"a": {"__tensor__": "x"}}', '{"__tuple__": 3}', '{"__keyed__": [1]}'])
        | st.text(max_size=6),
    )

    def case(drawn: dict[str, str]) -> None:
        path = folder / "made.safetensors"
        path.write_bytes(save({"x": torch.ones(2)}, metadata=drawn))
        tally.run("safetensors made up", lambda: load_state(path, kind="checkpoint"))

    return given(notes)(case)


def make_things_up(tally: Tally, folder: Path, n_cases: int, seed: int) -> None:
    """Let hypothesis draw cases for every kind of input that can be made up."""
    makers = [absurd_settings, absurd_arrays, absurd_zips, absurd_states]
    silent = settings(
        max_examples=max(1, n_cases // len(makers)),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for make in makers:
        hypothesis_seed(seed)(silent(make(tally, folder)))()


def fuzz(n_cases: int, seed: int) -> dict[str, Any]:
    """Run so many cases and sum up how they ended."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _ring)
    sys.addaudithook(_watch)
    tally = Tally()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TRANSOP_CACHE"] = str(Path(scratch) / "cache")
        damage_files(tally, Path(scratch), n_cases // 2, random.Random(seed))
        make_things_up(tally, Path(scratch), n_cases - n_cases // 2, seed)
    total = Counter[str]()
    for counter in tally.outcomes.values():
        total.update(counter)
    return {
        "seed": seed,
        "n_cases": sum(total.values()),
        "outcomes": dict(total),
        "by_reader": {name: dict(counter) for name, counter in tally.outcomes.items()},
        "slowest_seconds": round(tally.slowest, 3),
        "failures": tally.failures[:50],
    }


def main() -> int:
    """Fuzz, print and store; the exit code is 1 if any case ended as it must not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to write the result")
    options = parser.parse_args()
    report = fuzz(options.cases, options.seed)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k != "failures"}, indent=2))
    for failure, count in Counter(report["failures"]).most_common(10):
        print(f"{count} x {failure}")
    good = set(report["outcomes"]) <= {"accepted", "refused"}
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
