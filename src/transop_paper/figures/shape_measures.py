"""Measures of a drawn shape, as Morpho-MNIST (Castro et al., 2019) defines them.

The image is enlarged four times and cut at half its brightness. The skeleton of the shape gives
length and thickness; the moments of the image give slant; width and height are those of a
parallelogram that leans as the shape does. All lengths are in pixels of the image.

Differs from Morpho-MNIST: the skeleton is made by thinning (Zhang and Suen, 1984), which leaves
fewer short branches than the medial axis does. It ends about half a stroke's width before the
stroke does.
"""

import numpy as np
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage

# What is measured, and its unit.
MEASURES = {
    "area": "px²",
    "length": "px",
    "thickness": "px",
    "slant": "degrees",
    "width": "px",
    "height": "px",
}
_ENLARGED = 4
_OUTSIDE = 0.01  # share of the mass that the parallelogram leaves out on each side
_FAINTEST = 0.1  # an image whose brightest pixel stands out less shows no shape
_HAZE = 0.02  # share of the brightest pixel below which a pixel counts as dark
_RING = np.array([[128, 1, 2], [64, 0, 4], [32, 16, 8]])  # a bit per neighbour, clockwise


def measure_shapes(images: Float[np.ndarray, "*n h w"]) -> Float[np.ndarray, "*n measures"]:
    """Measure every image, in the order of ``MEASURES``; NaN where there is no shape."""
    flat = images.reshape(-1, *images.shape[-2:])
    found = np.array([_measure(image) for image in flat]).reshape(-1, len(MEASURES))
    return found.reshape(*images.shape[:-2], len(MEASURES))


def _measure(image: Float[np.ndarray, "h w"]) -> list[float]:
    if np.ptp(image) < _FAINTEST:
        return [np.nan] * len(MEASURES)
    # Zero outside, and pixel areas kept: the first pixel becomes the first four.
    large = ndimage.zoom(image, _ENLARGED, order=3, mode="grid-constant", grid_mode=True)
    large = np.where(large < _HAZE * large.max(), 0, large)
    shape = large >= (large.min() + large.max()) / 2
    shape = shape[ndimage.find_objects(shape.astype(int))[0]]  # the rest is empty
    skeleton = thin(shape)
    radius = ndimage.distance_transform_edt(np.pad(shape, 1))[1:-1, 1:-1]
    rows, columns = np.nonzero(large)
    mass = large[rows, columns]
    y, x = (places - np.average(places, weights=mass) for places in (rows, columns))
    shear = float((mass * x * y).sum() / max((mass * y * y).sum(), 1e-12))
    return [
        shape.sum() / _ENLARGED**2,
        skeleton_length(skeleton) / _ENLARGED,
        2 * radius[skeleton].mean() / _ENLARGED if skeleton.any() else np.nan,
        np.degrees(np.arctan(-shear)),  # positive if the top leans to the right
        _extent(x - shear * y, mass) / _ENLARGED,
        _extent(y, mass) / _ENLARGED,
    ]


def thin(shape: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Peel a shape until lines of one pixel are left (Zhang and Suen, 1984)."""
    left, before = shape.copy(), -1
    while before != (before := int(left.sum())):
        for removable in _PEELED:
            left &= ~removable[_rings(left)]
    for removable in _STAIRS:
        left &= ~removable[_rings(left)]
    return left


def _rings(shape: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w"]:
    """Number the ring of neighbours of every pixel, a bit for each."""
    rings: np.ndarray = ndimage.correlate(shape.astype(np.uint8), _RING, mode="constant")
    return rings


_NEIGHBOURS = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(bool)  # by number of a ring


def _peeled() -> Bool[np.ndarray, "2 256"]:
    """Say for both halves of a step which rings let a pixel of the border go."""
    count = _NEIGHBOURS.sum(1)
    groups = (_NEIGHBOURS & ~np.roll(_NEIGHBOURS, 1, axis=1)).sum(1)
    border = (count >= 2) & (count <= 6) & (groups == 1)
    n, e, s, w = _NEIGHBOURS[:, ::2].T
    kept = np.stack([(n & e & s) | (e & s & w), (n & e & w) | (n & s & w)])
    gone: np.ndarray = border & ~kept
    return gone


def _stairs() -> Bool[np.ndarray, "2 256"]:
    """Say which rings let the corner of a step go, so that slanted lines are one pixel wide.

    Corners with a neighbour above go first, then those with one below (Holt et al., 1987).
    """
    n, ne, e, se, s, sw, w, nw = _NEIGHBOURS.T
    above = n & ((e & ~ne & ~sw & ~(w & s)) | (w & ~nw & ~se & ~(e & s)))
    below = s & ((e & ~se & ~nw & ~(w & n)) | (w & ~sw & ~ne & ~(e & n)))
    return np.stack([above, below])


_PEELED, _STAIRS = _peeled(), _stairs()


def skeleton_length(skeleton: Bool[np.ndarray, "h w"]) -> float:
    """Add up the distances between neighbouring pixels of a skeleton, in its pixels.

    Two pixels that touch at a corner count only if no third one connects them.
    """
    right, down = skeleton[:, :-1] & skeleton[:, 1:], skeleton[:-1] & skeleton[1:]
    corners = skeleton[:-1, :-1], skeleton[:-1, 1:], skeleton[1:, :-1], skeleton[1:, 1:]
    falling = corners[0] & corners[3] & ~corners[1] & ~corners[2]
    rising = corners[1] & corners[2] & ~corners[0] & ~corners[3]
    straight, diagonal = right.sum() + down.sum(), falling.sum() + rising.sum()
    return float(straight + np.sqrt(2) * diagonal)


def _extent(places: Float[np.ndarray, " n"], mass: Float[np.ndarray, " n"]) -> float:
    """Give the length of the interval that holds the middle 98 % of the mass."""
    order = np.argsort(places)
    total = np.cumsum(mass[order])
    low, high = np.interp([_OUTSIDE, 1 - _OUTSIDE], total / total[-1], places[order])
    return float(high - low)
