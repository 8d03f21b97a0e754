"""Large arrays on disk: written once, block by block, and memory-mapped afterwards.

An array is a folder with ``rows.npy``, numpy's own format, and ``notes.json``. The folder appears
in one step when it is complete, so a process that is killed leaves nothing that looks finished.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from transop.files import read_regular, require_regular, scratch_folder

_log = logging.getLogger(__name__)

_ROWS, _NOTES = "rows.npy", "notes.json"
_FULL_DIGEST_BYTES = 2**29
_SAMPLED_ROWS = 8192
_BLOCK_BYTES = 2**24

Notes = dict[str, Any]


def digest_rows(rows: np.ndarray) -> str:
    """Give a digest of an array's shape, type and values.

    An array up to 512 MB is read whole. Of a larger one, 8,192 evenly spaced rows are read (the
    first and the last among them), so that a large memory map is not read to its end. The digest
    depends on nothing but these bytes: it is the same in every process and on every machine.
    """
    digest = hashlib.sha256(f"{rows.dtype.newbyteorder('<').str} {rows.shape}".encode())
    if rows.nbytes > _FULL_DIGEST_BYTES and len(rows) > _SAMPLED_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _SAMPLED_ROWS).astype(np.int64)]
    per_block = max(1, _BLOCK_BYTES * len(rows) // max(1, rows.nbytes))
    little = rows.dtype.newbyteorder("<")
    for start in range(0, len(rows), per_block):
        block = rows[start : start + per_block].astype(little, copy=False)
        digest.update(np.ascontiguousarray(block).view(np.uint8).data)
    return digest.hexdigest()


def map_rows(folder: Path) -> tuple[np.ndarray, Notes] | None:
    """Map the rows that `write_rows` wrote, which stay on disk until they are used, and the notes.

    None where there is no such array, or a damaged one: its digest does not fit.
    """
    if not folder.is_dir():
        return None
    try:
        notes = json.loads(read_regular(folder / _NOTES))
        require_regular(folder / _ROWS)
        # Private to this process: torch wants memory that it may write to.
        rows = np.load(folder / _ROWS, mmap_mode="c", allow_pickle=False)
        if digest_rows(rows) != notes["digest"]:
            raise ValueError("its content does not match its digest")
        return rows, dict(notes["notes"])
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        _log.warning("'%s' is damaged (%s) and will be made again", folder, error)
        return None


def write_rows(
    folder: Path, blocks: Iterable[np.ndarray], notes: Callable[[], Notes] = dict
) -> tuple[np.ndarray, Notes]:
    """Write an array given a block of rows at a time, at least one, and map it with its notes.

    A damaged array in the folder is replaced. ``notes`` is called after the last block: what to
    keep beside the rows, as JSON values.
    """
    with scratch_folder(folder.parent) as scratch:
        complete = scratch / "complete"
        complete.mkdir()
        with (complete / _ROWS).open("wb") as file:
            _write_blocks(file, blocks)
        kept = notes()
        digest = digest_rows(np.load(complete / _ROWS, mmap_mode="r"))
        (complete / _NOTES).write_text(json.dumps({"digest": digest, "notes": kept}), "utf-8")
        if folder.exists():
            folder.rename(scratch / "replaced")
        try:
            complete.rename(folder)
        except OSError:
            if not folder.is_dir():  # if another process was faster, the other's is kept
                raise
    rows = np.load(folder / _ROWS, mmap_mode="c", allow_pickle=False)
    return rows, kept


def _write_blocks(file: IO[bytes], blocks: Iterable[np.ndarray]) -> None:
    """Write numpy's header, the blocks, and the header again with the final number of rows."""
    n_rows = 0
    header: dict[str, Any] = {}
    for block in blocks:
        if not header:
            header = np.lib.format.header_data_from_array_1_0(np.ascontiguousarray(block))
            np.lib.format.write_array_header_1_0(file, header)
        # Plain writes, not a writable memory map: a full disk is then an error and not a crash.
        file.write(np.ascontiguousarray(block).data)
        n_rows += len(block)
    if not header:
        raise ValueError("there are no rows to write")
    header["shape"] = (n_rows, *header["shape"][1:])
    file.seek(0)
    # numpy leaves room in the header for the first axis to grow, so the length stays the same.
    np.lib.format.write_array_header_1_0(file, header)
    file.flush()
    os.fsync(file.fileno())
