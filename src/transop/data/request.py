"""What a caller asks a data set loader for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from transop.data.dataset import ImageDataset
from transop.data.picture import Crop, Fit, conform
from transop.errors import DataError, show
from transop.files import real_path
from transop.progress import Progress, silent


@dataclass(frozen=True)
class DatasetRequest:
    """What is asked for besides the name or path of a data set.

    A loader may ignore ``image_size`` and ``channels``: ``load_dataset`` converts afterwards
    whatever does not fit yet.

    The fields mean what the arguments of `transop.data.load_dataset` mean. Loaders keep files in a
    folder of their own name below ``cache_dir``; ``options`` are for loaders that know them.
    """

    path: Path | None = None
    image_size: int | None = None
    channels: int | None = None
    fit: Fit = "crop"
    crop: Crop | None = None
    split: str | None = None
    cache_dir: Path = field(default_factory=lambda: cache_folder())
    seed: int = 0
    offline: bool = False
    progress: Progress = silent
    options: Mapping[str, Any] = field(default_factory=dict)

    def conform(self, images: np.ndarray) -> np.ndarray:
        """Bring a stack of images to the wanted size, channels and crop."""
        return conform(images, self.image_size, self.channels, self.fit, self.crop)

    def refuse_options(
        self, name: str, known: tuple[str, ...] = (), *, splits: tuple[str, ...] = ()
    ) -> None:
        """Raise for options and splits that the loader called ``name`` does not know."""
        for option in self.options:
            if option not in known:
                choices = ", ".join(known) or "none"
                raise DataError(
                    f"{option}={self.options[option]!r} is not an option of data set {name!r}; "
                    f"valid options: {choices}"
                )
        valid = (*splits, "random")
        if self.split is not None and self.split not in valid:
            raise DataError(
                f"split={show(self.split)} does not exist for data set {name!r}; choose one of "
                f"{', '.join(valid)}, or leave it out for the split of the source"
            )


DatasetLoader = Callable[[DatasetRequest], ImageDataset]


def cache_folder() -> Path:
    """Name the user's cache: ``TRANSOP_CACHE``, else the platform's cache folder / transop."""
    named = os.environ.get("TRANSOP_CACHE")
    if named:
        return real_path(Path(named))
    from platformdirs import user_cache_path

    return user_cache_path("transop", appauthor=False)
