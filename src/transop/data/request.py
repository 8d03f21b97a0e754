"""What a caller asks a data set loader for."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transop.data.dataset import ImageDataset
from transop.errors import DataError
from transop.progress import Progress, silent


@dataclass(frozen=True)
class DatasetRequest:
    """The wishes that come with a data set name or path.

    A loader may ignore ``image_size`` and ``channels``: ``load_dataset`` converts afterwards
    whatever does not fit yet.

    Attributes:
        path: where the user says the files are, or ``None`` to search.
        image_size: wanted height and width, or ``None`` for the set's own.
        channels: 1 or 3, or ``None`` for the set's own.
        cache_dir: root of the cache; loaders use a folder of their own name below it.
        seed: decides random splits and generated images.
        offline: never touch the network.
        progress: announces long work.
        options: further wishes by name, for loaders that know them.
    """

    path: Path | None = None
    image_size: int | None = None
    channels: int | None = None
    cache_dir: Path = field(default_factory=lambda: cache_folder())
    seed: int = 0
    offline: bool = False
    progress: Progress = silent
    options: Mapping[str, Any] = field(default_factory=dict)

    def refuse_options(self, name: str, known: tuple[str, ...] = ()) -> None:
        """Raise for options the loader called ``name`` does not know."""
        for option in self.options:
            if option not in known:
                choices = ", ".join(known) or "none"
                raise DataError(
                    f"{option}={self.options[option]!r} is not an option of data set {name!r}; "
                    f"valid options: {choices}"
                )


DatasetLoader = Callable[[DatasetRequest], ImageDataset]


def cache_folder() -> Path:
    """Name the user's cache: ``TRANSOP_CACHE``, else the platform's cache folder / transop."""
    named = os.environ.get("TRANSOP_CACHE")
    if named:
        return Path(named).expanduser().resolve()
    import pooch  # slow to import, and only its knowledge of platforms is needed

    return Path(pooch.os_cache("transop"))
