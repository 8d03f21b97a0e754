"""Keep a large decoded image collection as one memory-mapped file in the cache.

The folder of a collection appears in one step once it is complete. It holds ``images.bin`` (the
bytes of all readable images, in the plan's order) and ``manifest.json``.
"""

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from transop.data.dataset import ImageDataset
from transop.data.files import scratch_folder, set_aside
from transop.data.pictures import Plan, assemble, decode_in_batches
from transop.data.request import DatasetRequest
from transop.errors import DataError

_log = logging.getLogger(__name__)
_FORMAT = 1  # raise it when the decoding changes, so that old folders are not used


def memory_mapped(plan: Plan, name: str, source: str, request: DatasetRequest) -> ImageDataset:
    """Open the memory map of a collection, building it first if need be.

    Args:
        plan: the entries, in order.
        name: what to call the data set.
        source: where it is, in words.
        request: cache and progress.

    Returns:
        A data set whose images stay on disk until they are asked for.
    """
    parent = request.cache_dir / "pictures"
    folder = parent / _key(plan)
    manifest = _read_manifest(folder, plan)
    if manifest is None:
        try:
            _build(plan, parent, folder, name, request)
        except OSError as error:
            raise DataError(
                f"the image cache {parent} cannot be written ({error.strerror or error}); set "
                "TRANSOP_CACHE or cache_dir to a folder with room"
            ) from None
        manifest = _read_manifest(folder, plan)
        if manifest is None:
            raise DataError(f"the image cache {folder} does not read back; check the disk")
    problems = {int(row): str(reason) for row, reason in manifest["problems"].items()}
    shape = (len(plan.entries) - len(problems), plan.channels, plan.size, plan.size)
    images = (
        np.memmap(folder / "images.bin", dtype=np.uint8, mode="r", shape=shape)
        if shape[0]
        else np.empty(shape, np.uint8)
    )
    return assemble(plan, images, problems, name, source)


def _key(plan: Plan) -> str:
    """Name a collection by what decides its bytes: files, order, size and channels."""
    digest = hashlib.sha256(f"{_FORMAT} {plan.size} {plan.channels}".encode())
    for entry in plan.entries:
        digest.update(f"\n{entry.path}\t{entry.stamp}".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _build(plan: Plan, parent: Path, folder: Path, name: str, request: DatasetRequest) -> None:
    """Decode everything into a scratch folder, then give it its final name."""
    n_bytes = len(plan.entries) * plan.channels * plan.size**2
    with scratch_folder(parent) as scratch:
        free = shutil.disk_usage(scratch).free
        if free < n_bytes:
            raise OSError(f"it needs {n_bytes / 1e9:.2f} GB and {free / 1e9:.2f} GB are free")
        problems = {}
        # Plain writes, not a writable memory map: a full disk is then an error and not a crash.
        with (scratch / "images.bin").open("wb") as target:
            row = 0
            for batch in decode_in_batches(plan, name, request.progress):
                for decoded in batch:
                    if isinstance(decoded, str):
                        problems[row] = decoded
                    else:
                        target.write(np.ascontiguousarray(decoded).data)
                    row += 1
            target.flush()
            os.fsync(target.fileno())
        manifest = {"n_entries": len(plan.entries), "problems": problems}
        (scratch / "manifest.json").write_text(json.dumps(manifest))
        _publish(scratch, folder)
    _log.info("data set %r is now memory-mapped in %s", name, folder)


def _publish(scratch: Path, folder: Path) -> None:
    try:
        scratch.rename(folder)
    except OSError:
        # Another process finished the same collection first; its files are as good as ours.
        if not folder.is_dir():
            raise


def _read_manifest(folder: Path, plan: Plan) -> dict[str, Any] | None:
    """Read the manifest of a complete folder; rename a damaged one aside."""
    if not folder.is_dir():
        return None
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        n_images = len(plan.entries) - len(manifest["problems"])
        expected = n_images * plan.channels * plan.size**2
        if (folder / "images.bin").stat().st_size == expected:
            return dict(manifest)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    set_aside(folder)
    return None
