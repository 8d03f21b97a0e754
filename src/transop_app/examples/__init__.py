"""Example models: small trained runs that come with the package, one folder each.

``benchmarks/ship_example.py`` writes the folders. Every folder has a model card, ``README.md``.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from transop.data import cache_folder
from transop.errors import UserError, show
from transop.files import make_folder, scratch_folder

_SHIPPED = Path(__file__).parent


def example_names() -> list[str]:
    """List the examples that are installed."""
    return sorted(file.parent.name for file in _SHIPPED.glob("*/config.json"))


def example_folder(name: str) -> Path:
    """Copy an example into the user's cache, once, and give its folder.

    The copy is an ordinary run folder: figures and reports can be written into it. Another
    version of the example gets a folder of its own.

    Args:
        name: one of `example_names`.
    """
    if name not in example_names():
        listed = " or ".join(example_names())
        raise UserError(f"there is no example {show(name)}; choose from {listed}")
    shipped = _SHIPPED / name
    examples = cache_folder() / "examples"
    target = examples / _digest(shipped)[:12] / name
    if not target.is_dir():
        with scratch_folder(examples) as scratch:
            shutil.copytree(shipped, scratch / name)
            make_folder(target.parent)
            try:
                (scratch / name).rename(target)
            except OSError:
                if not target.is_dir():  # if another process was faster, its copy is used
                    raise
    return target


def _digest(folder: Path) -> str:
    """Give a digest of the content of all files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
