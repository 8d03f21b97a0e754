"""Data files: damaged ones, absurd ones, and things that are no files at all."""

from __future__ import annotations

import io
import os
import pickle
import random
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import transop
from attacks import Attack, Case, damage

_KINDS = ["u1", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "?", "S3", "U2", "O", "M8[s]"]
_NAMES = ["../x.png", "/x.png", "a/../../x.png", "C:\\x.png", "x.png/", ".x.png", "a/b.jpg"]
_NAMES += ["x.png", "", "\ud800.png", "a" * 300 + ".png", "con.png", "\0.png"]
_ENDINGS = (".npz", ".npy", ".zip", ".csv", ".png", "")


class _Tripwire:
    """Ends the case if it is ever unpickled: the cage notices attempts to run code."""

    def __reduce__(self) -> Any:
        return (os.system, ("true",))


def read(path: Path) -> None:
    """Read a source of images."""
    transop.load_dataset(path, offline=True)


class Files(Attack):
    """Read data through `load_dataset`, given pairs through `build_pairs`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.images = np.random.default_rng(0).integers(0, 256, (20, 16, 16), np.uint8)
        self.good = self._good_files()
        self.pairs = self._good_pairs()
        self.dataset = transop.load_dataset(self.images, labels=np.arange(20) % 2)

    def case(self, chance: random.Random) -> Case:
        """Choose a way to make a file and make it."""
        made = self.folder / "case"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        makers: list[Callable[[random.Random, Path], Case]] = [
            self._damaged,
            self._damaged,
            self._absurd_array,
            self._absurd_zip,
            self._no_file,
            self._given_pairs,
        ]
        return chance.choice(makers)(chance, made)

    def _good_files(self) -> list[Path]:
        folder, images = self.folder, self.images
        np.savez(folder / "images.npz", images=images, labels=np.arange(20) % 2)
        np.savez_compressed(folder / "packed.npz", x_train=images, y_train=np.arange(20) % 3)
        np.save(folder / "images.npy", images.astype(np.float32) / 255)
        with zipfile.ZipFile(folder / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for number, image in enumerate(images[:12]):
                stream = io.BytesIO()
                Image.fromarray(image).save(stream, "PNG")
                archive.writestr(f"{'ab'[number % 2]}/{number}.png", stream.getvalue())
        header = struct.pack(">HBB3I", 0, 8, 3, *images.shape)
        (folder / "train-images-idx3-ubyte").write_bytes(header + images.tobytes())
        grey = Image.fromarray(images[0])
        colour = Image.merge("RGB", [grey, grey.rotate(90), grey.rotate(180)])
        pictures = {"grey.png": grey, "palette.gif": colour.quantize(16), "photo.jpg": colour}
        pictures |= {"print.jpg": colour.convert("CMYK"), "lossless.webp": colour}
        pictures |= {"deep.tif": Image.fromarray(images[0].astype(np.uint16) * 257)}
        pictures |= {"plain.bmp": colour, "old.tga": colour, "text.ppm": colour, "wave.jp2": colour}
        for name, picture in pictures.items():
            picture.save(folder / name)
        names = ["images.npz", "packed.npz", "images.npy", "images.zip", "train-images-idx3-ubyte"]
        return [folder / name for name in (*names, *pictures)]

    def _good_pairs(self) -> list[Path]:
        np.savez(self.folder / "given.npz", pairs=np.stack([np.arange(15), np.arange(1, 16)], 1))
        lines = "".join(f"{i},{i + 1}\n" for i in range(15))
        (self.folder / "given.csv").write_text("start,end\n" + lines)
        return [self.folder / "given.npz", self.folder / "given.csv"]

    def _damaged(self, chance: random.Random, made: Path) -> Case:
        file = chance.choice(self.good)
        copy = made / file.name
        copy.write_bytes(damage(file.read_bytes(), chance))
        alone = file.suffix in (".npz", ".npy", ".zip")  # else the folder is the source
        return f"damaged {file.name}", lambda: read(copy if alone else made)

    def _absurd_array(self, chance: random.Random, made: Path) -> Case:
        def array() -> np.ndarray:
            shape = tuple(chance.randrange(7) for _ in range(chance.randrange(6)))
            kind = chance.choice(_KINDS)
            value = chance.choice((0, 1, -1, 300, 0.5, np.nan, np.inf, 1e300))
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    return np.full(shape, value).astype(kind)
            except (ValueError, OverflowError):
                return np.empty(shape)

        names = ["images", "labels", "x_train", "y_train", "x", "", "images/../x", "arr_0"]
        arrays = {chance.choice(names) or "_": array() for _ in range(chance.randrange(4))}
        if chance.random() < 0.7:
            arrays["images"] = array()
        np.savez(made / "made.npz", **arrays)
        shapes = {name: (value.dtype.str, value.shape) for name, value in arrays.items()}
        return f"npz {shapes}"[:200], lambda: read(made / "made.npz")

    def _absurd_zip(self, chance: random.Random, made: Path) -> Case:
        contents = [chance.randbytes(40), b"\x89PNG\r\n\x1a\n" + bytes(30), bytes(2**22), b""]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of equal names
            with zipfile.ZipFile(made / "made.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for _ in range(chance.randrange(5)):
                    name = chance.choice(_NAMES).replace("\ud800", "\x7f") or "x"
                    info = zipfile.ZipInfo(name)
                    info.external_attr = chance.randrange(2**32)
                    archive.writestr(info, chance.choice(contents))
        return "zip of odd members", lambda: read(made / "made.zip")

    def _no_file(self, chance: random.Random, made: Path) -> Case:
        """Make something at a path that is no regular file, or not what its name says."""
        path = made / f"thing{chance.choice(_ENDINGS)}"
        kind = chance.choice(("fifo", "zero", "random", "loop", "folder", "pickle", "empty"))
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "zero":
            path.symlink_to("/dev/zero")
        elif kind == "random":
            path.symlink_to("/proc/self/environ")
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "pickle":
            path.write_bytes(pickle.dumps(_Tripwire()))
        else:
            path.touch()
        inside = chance.random() < 0.5
        where = "in a folder" if inside else "named"
        return f"{kind} {path.name} {where}", lambda: read(made if inside else path)

    def _given_pairs(self, chance: random.Random, made: Path) -> Case:
        file = chance.choice(self.pairs)
        path = made / file.name
        odd = ["start,end,start\n0,1,2\n", "\ufeffstart,end\n0,1\n", "start,end\n-1,99999\n"]
        odd += ["start;end\n0;1\n", "start,end\n0,1e400\n", "start,end\n" + "9" * 5000 + ",1\n"]
        if chance.random() < 0.4:
            path = made / "given.csv"
            path.write_text(chance.choice(odd), "utf-8")
        elif chance.random() < 0.2:
            os.mkfifo(path)
        else:
            path.write_bytes(damage(file.read_bytes(), chance))

        def pair() -> None:
            transop.build_pairs(self.dataset, "given", given=path, cache_dir=made / "cache")

        return f"given pairs {path.name}", pair
