"""One large table on disk: written block by block, mapped into memory when it is read.

The file is what ``artifacts.save_state`` would write, but neither writing nor reading holds more
than a block of it in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from transop.artifacts import FORMAT_VERSION
from transop.errors import ArtifactError

_NAMES = {torch.float16: "F16", torch.float32: "F32"}
_TYPES = {"F16": np.float16, "F32": np.float32}
_UNKNOWN = "0" * 32  # stands where the digest will be, once all blocks have been seen
_LONGEST_HEADER = 2**16
_BLOCK = 2**24


def write_table(
    path: Path, blocks: Iterable[Shaped[Tensor, "b f"]], n_rows: int, *, kind: str
) -> None:
    """Write a table of floats in one step, given its rows a block at a time.

    Args:
        path: where to write; nothing is there until the table is complete.
        blocks: the rows in order, on the CPU, all of one type.
        n_rows: how many there will be.
        kind: what the table is, and what it is called inside; reading checks it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("w+b") as file:
            _stream(file, blocks, n_rows, kind)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _stream(file: IO[bytes], blocks: Iterable[Tensor], n_rows: int, kind: str) -> None:
    digest = _new_digest(kind)
    written = 0
    for block in blocks:
        if written == 0:
            header = _header(kind, block.dtype, (n_rows, block.shape[1]))
            file.write(header)
        values = block.contiguous().numpy().data
        digest.update(values)
        file.write(values)
        written += len(block)
    assert written == n_rows, f"{written} rows came instead of {n_rows}"
    file.seek(header.index(_UNKNOWN.encode()))
    file.write(digest.hexdigest().encode())


def _header(kind: str, dtype: torch.dtype, shape: tuple[int, int]) -> bytes:
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    notes = {
        "digest": _UNKNOWN,
        "format": "transop",
        "format_version": str(FORMAT_VERSION),
        "kind": kind,
        "state": _skeleton(kind),
    }
    entry = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [0, n_bytes]}
    text = json.dumps({"__metadata__": notes, f"/{kind}": entry}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _skeleton(kind: str) -> str:
    return json.dumps({kind: {"__tensor__": f"/{kind}"}})


def _new_digest(kind: str) -> Any:
    return hashlib.blake2b((_skeleton(kind) + f"/{kind}").encode(), digest_size=16)


def map_table(path: Path, *, kind: str) -> Shaped[Tensor, "n f"]:
    """Map a table into memory after reading it through once for its digest.

    Args:
        path: what ``write_table`` wrote.
        kind: as given there.

    Raises:
        ArtifactError: the file is missing, cut short, changed or of another kind.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, _LONGEST_HEADER)))
            notes, entry = header["__metadata__"], header[f"/{kind}"]
            shape, dtype = tuple(entry["shape"]), np.dtype(_TYPES[entry["dtype"]])
            digest = _new_digest(kind)
            n_bytes = 0
            while block := file.read(_BLOCK):
                digest.update(block)
                n_bytes += len(block)
        expected = (digest.hexdigest(), kind, str(FORMAT_VERSION))
        found = tuple(notes.get(key) for key in ("digest", "kind", "format_version"))
        if found != expected or n_bytes != int(np.prod(shape)) * dtype.itemsize:
            raise ValueError("its content does not match its digest")
        # Private to this process: torch wants memory it may write to.
        values = np.memmap(path, dtype, mode="c", offset=8 + length, shape=shape)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"'{path}' holds no whole table of {kind}: {error}") from None
    return torch.from_numpy(values)
