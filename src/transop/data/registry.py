"""All data sets by name, and the layouts of folders and files that other packages know."""

from pathlib import Path

from transop.data.request import DatasetLoader
from transop.extras import plugged_in

# Your own data sets by name. Those of packages, such as the reproduction's, are entry points of
# the first group; those of the second give the loader of a folder or file whose layout they know,
# else None.
DATASETS: dict[str, DatasetLoader] = {}
_DATASETS, _LAYOUTS = "transop.datasets", "transop.layouts"


def known_datasets() -> dict[str, DatasetLoader]:
    """List every data set that can be asked for by name: those of packages, and your own."""
    return {**plugged_in(_DATASETS), **DATASETS}


def recognised_layout(place: Path) -> DatasetLoader | None:
    """Find what loads a folder or file whose layout a package knows."""
    loaders = (recognise(place) for recognise in plugged_in(_LAYOUTS).values())
    return next((load for load in loaders if load is not None), None)
