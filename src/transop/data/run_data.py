"""The images a run is trained on: loaded as its settings say, recorded, and checked ever after."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from transop.artifacts import RunFolder, read_json, write_json
from transop.config import Settings
from transop.data.dataset import ImageDataset, spread_out
from transop.data.findings import require_trainable
from transop.data.load import load_dataset
from transop.data.registry import known_datasets
from transop.errors import ArtifactError, DataError
from transop.files import real_path
from transop.progress import Progress, silent

logger = logging.getLogger(__name__)

ARRAY = "array"  # the source of images that were handed over in Python
_SMALLEST, _LARGEST, _USUAL = 16, 128, 64  # pixels our autoencoders take, and a good size


@dataclass(frozen=True)
class DataRecord:
    """What a run was really trained on; it stands in the run folder as ``data.json``."""

    source: str  # a data set's name, the absolute path of a file or folder, or "array"
    name: str  # what the data set calls itself
    n_images: int  # all splits together
    image_shape: tuple[int, int, int]  # channels, height, width, as the network sees them
    splits: dict[str, int]  # how many images each split has
    class_names: tuple[str, ...] | None  # None without labels
    content_hash: str  # of pixels, labels, attributes and splits

    @classmethod
    def of(cls, dataset: ImageDataset, source: str) -> DataRecord:
        """Describe a data set as it is about to be used."""
        if source != ARRAY and source not in known_datasets():
            source = str(real_path(Path(source)))  # so that the run finds it from any folder
        names = dataset.meta.class_names or tuple(str(k) for k in range(dataset.n_classes))
        return cls(
            source=source,
            name=dataset.meta.name,
            n_images=len(dataset),
            image_shape=dataset.image_shape,
            splits={name: len(rows) for name, rows in dataset.splits.items()},
            class_names=None if dataset.labels is None else tuple(names),
            content_hash=dataset.content_hash(),
        )

    @classmethod
    def read(cls, folder: RunFolder) -> DataRecord | None:
        """Read the record of a run; None if the run was written before there were records."""
        if not folder.data_file.exists():
            return None
        try:
            return TypeAdapter(cls).validate_python(read_json(folder.data_file))
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(map(str, wrong["loc"]))
            raise ArtifactError(
                f"'{folder.data_file}' does not describe a run's data: {where}: {wrong['msg']}"
            ) from None

    def write(self, folder: RunFolder) -> None:
        """Store the record in a run folder."""
        write_json(folder.data_file, asdict(self))

    def require_same(self, dataset: ImageDataset, run: Path) -> None:
        """Refuse images other than those the run was trained on."""
        if dataset.content_hash() == self.content_hash:
            return
        raise DataError(
            f"the run in '{run}' was trained on other data: {self.summary()}; got "
            f"{len(dataset):,} images of {_size(dataset.image_shape)} pixels with another content. "
            "Give the original images (--data PATH, or the FOLDER of 'transop fit'), "
            "or start a new run"
        )

    def summary(self) -> str:
        """Say in a few words what the data were."""
        labels = "no labels" if self.class_names is None else f"{len(self.class_names)} classes"
        return f"'{self.source}', {self.n_images:,} images of {_size(self.image_shape)}, {labels}"


def with_source(settings: Settings, source: str) -> Settings:
    """Give the same settings with another source of images."""
    return settings.model_copy(update={"data": settings.data.model_copy(update={"source": source})})


def load_run_data(
    settings: Settings,
    *,
    dataset: Any = None,
    labels: Any = None,
    offline: bool = False,
    progress: Progress = silent,
) -> ImageDataset:
    """Load the images a run is trained on, as its settings describe them.

    Args:
        settings: of the run.
        dataset: takes the place of ``data.source``: anything ``load_dataset`` reads; all other
            settings still apply. An `ImageDataset` was cropped and split when it was loaded: only
            size, channels and limit apply.
        labels: class numbers of the images of ``dataset``.
        offline: never touch the network.
        progress: announces long work.
    """
    wanted = settings.data
    if dataset is None and wanted.source == ARRAY:
        raise DataError(
            "this run was trained on an array that was handed over in Python; give the same "
            "images again with --data PATH (a .npz, .npy, folder or zip) or fit(images, ...)"
        )
    loaded = isinstance(dataset, ImageDataset)
    applied = {"image_size", "channels", *(() if loaded else ("fit", "crop", "split"))}
    images = load_dataset(
        wanted.source if dataset is None else dataset,
        labels=labels,
        offline=offline,
        progress=progress,
        **wanted.model_dump(include=applied),
    )
    if wanted.image_size is None and not _SMALLEST <= images.image_size <= _LARGEST:
        size = _SMALLEST if images.image_size < _SMALLEST else _USUAL
        message = "images of %d pixels are resized to %d (data.image_size chooses another size)"
        logger.warning(message, images.image_size, size)
        images = load_dataset(images, image_size=size)
    if wanted.limit is not None and wanted.limit < len(images.splits["train"]):
        fewer = {**images.splits, "train": spread_out(images.splits["train"], wanted.limit)}
        images = replace(images, splits=fewer)
    require_trainable(images)
    _require_enough_data(settings.autoencoder.latent_dimension, images)
    return images


def open_run_data(
    folder: RunFolder,
    settings: Settings,
    *,
    dataset: Any = None,
    offline: bool = False,
    progress: Progress = silent,
) -> ImageDataset:
    """Load the very images a finished or interrupted run was trained on, or refuse.

    ``dataset`` gives the images again, where the recorded source is gone or was an array; the
    other arguments are those of `load_run_data`.
    """
    record = DataRecord.read(folder)
    if record is not None:
        settings = with_source(settings, record.source)
    images = load_run_data(settings, dataset=dataset, offline=offline, progress=progress)
    if record is None:
        logger.warning(
            "the run in '%s' was written before transop recorded its data: it cannot be checked "
            "that these are the images it was trained on",
            folder.path,
        )
    else:
        record.require_same(images, folder.path)
    return images


def _require_enough_data(latent_dimension: int, images: ImageDataset) -> None:
    """Refuse more latent dimensions than there are pixels, or than images to fill them."""
    n_values, n_images = int(np.prod(images.image_shape)), len(images.splits["train"])
    if latent_dimension > min(n_values, n_images):
        scarce = f"{n_images} training images" if n_images < n_values else f"{n_values} pixels"
        raise DataError(
            f"autoencoder.latent_dimension = {latent_dimension} is larger than the data "
            f"({scarce}): such latents compress nothing; use at most {min(n_values, n_images)}"
        )


def _size(image_shape: tuple[int, int, int]) -> str:
    channels, height, width = image_shape
    return f"{height} x {width} x {channels}"
