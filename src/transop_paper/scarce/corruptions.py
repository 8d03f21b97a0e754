"""Changes that leave a digit readable, after the descriptions of MNIST-C (Mu and Gilmer, 2019).

Every change is written here anew, with strengths of our own: accuracies under them can be compared
with each other, not with published ones. Images have values in [0, 1], bright on a dark ground.
"""

import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy import ndimage
from torch.nn.functional import affine_grid, grid_sample

Images = Float[np.ndarray, "n h w"]
Corrupt = Callable[[Images, np.random.Generator], Images]
_AT_ONCE = 100  # images on which lines are drawn together


def corrupt(images: Images, name: str) -> Images:
    """Apply a change by name; the same name and images give the same result."""
    random = np.random.default_rng([0, zlib.crc32(name.encode())])
    return CORRUPTIONS[name](images, random).clip(0, 1).astype(np.float32)


def rotate(images: Images, random: np.random.Generator, *, degrees: float) -> Images:
    """Turn every image about its centre, to a side drawn at random."""
    angles = np.radians(degrees) * _signs(images, random)
    cos, sin = np.cos(angles), np.sin(angles)
    return _warp(images, np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2))


def scale(images: Images, _: np.random.Generator, *, factor: float) -> Images:
    """Enlarge every image about its centre by a factor."""
    return _warp(images, np.broadcast_to(np.eye(2) / factor, (len(images), 2, 2)))


def shear(images: Images, random: np.random.Generator, *, amount: float) -> Images:
    """Shift rows sideways in proportion to their height, to a side drawn at random."""
    matrices = np.tile(np.eye(2), (len(images), 1, 1))
    matrices[:, 0, 1] = amount * _signs(images, random)
    return _warp(images, matrices)


def translate(images: Images, random: np.random.Generator, *, pixels: float) -> Images:
    """Shift every image so many pixels far, in a direction drawn at random."""
    angles = random.uniform(0, 2 * np.pi, len(images))
    return _shift(images, pixels * np.stack([np.cos(angles), np.sin(angles)], axis=1))


def shot_noise(images: Images, random: np.random.Generator, *, photons: float) -> Images:
    """Replace brightness by a count of photons, so many on average where it is 1."""
    return random.poisson(images * photons) / photons


def impulse_noise(images: Images, random: np.random.Generator, *, share: float) -> Images:
    """Set a share of the pixels to black or white."""
    hit, white = random.random(images.shape) < share, random.random(images.shape) < 0.5
    return np.where(hit, white, images)


def glass_blur(images: Images, random: np.random.Generator, *, sigma: float) -> Images:
    """Blur, exchange every pixel twice with one beside it, and blur again."""
    blurred = _blur(images, sigma)
    n, height, width = images.shape
    every = np.arange(n)
    for _ in range(2):
        for y in range(1, height - 1):
            for x in range(1, width - 1):
                dy, dx = random.integers(-1, 2, (2, n))
                there = blurred[every, y + dy, x + dx]
                blurred[every, y + dy, x + dx] = blurred[:, y, x]
                blurred[:, y, x] = there
    return _blur(blurred, sigma)


def motion_blur(images: Images, random: np.random.Generator, *, pixels: float) -> Images:
    """Average over a straight movement of so many pixels, at most 45 degrees from level."""
    angles = random.uniform(-np.pi / 4, np.pi / 4, len(images))
    direction = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    places = np.linspace(-pixels / 2, pixels / 2, 9)
    seen: np.ndarray = np.mean([_shift(images, place * direction) for place in places], axis=0)
    return seen


def brightness(images: Images, _: np.random.Generator, *, added: float) -> Images:
    """Make every pixel brighter."""
    return images + added


def stripe(images: Images, _: np.random.Generator) -> Images:
    """Invert the left and the right quarter of every image."""
    striped, quarter = images.copy(), images.shape[2] // 4
    striped[:, :, :quarter] = 1 - striped[:, :, :quarter]
    striped[:, :, -quarter:] = 1 - striped[:, :, -quarter:]
    return striped


def fog(images: Images, random: np.random.Generator, *, density: float) -> Images:
    """Add a cloud whose detail fades with its fineness, and lower the contrast."""
    n, height, width = images.shape
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    spectrum = np.fft.rfft2(random.standard_normal((n, height, width)))
    clouds = np.fft.irfft2(spectrum / frequency.clip(1 / height) ** 1.5, s=(height, width))
    clouds -= clouds.min((1, 2), keepdims=True)
    clouds /= clouds.max((1, 2), keepdims=True)
    return (images + density * clouds) / (1 + density)


def spatter(images: Images, random: np.random.Generator, *, share: float) -> Images:
    """Throw drops on every image: bright blots that cover a share of it."""
    wet = _blur(random.standard_normal(images.shape), 1.0)
    edge = np.quantile(wet, 1 - share, axis=(1, 2), keepdims=True)
    covered: np.ndarray = np.maximum(images, (0.5 + 4 * (wet - edge)).clip(0, 0.8))
    return covered


def dotted_line(images: Images, random: np.random.Generator) -> Images:
    """Draw a dotted line across every image, from side to side."""
    steps = np.linspace(0, 1, 10)
    return _with_dots(images, _line(images, random, steps), radius=0.8)


def zigzag(images: Images, random: np.random.Generator) -> Images:
    """Draw a zigzag line across every image, from side to side."""
    steps = np.linspace(0, 1, 100)
    points = _line(images, random, steps)
    points[..., 1] += 2.0 * (2 * np.abs((8 * steps) % 2 - 1) - 1)
    return _with_dots(images, points, radius=0.6)


def canny_edges(images: Images, _: np.random.Generator) -> Images:
    """Keep the outlines alone, as Canny (1986) finds them."""
    smooth = _blur(images, 1.0)
    dy, dx = (ndimage.sobel(smooth, axis) for axis in (1, 2))
    size = np.hypot(dy, dx)
    sectors = np.round(np.arctan2(dy, dx) / (np.pi / 4)).astype(int) % 4
    ridge = np.zeros(size.shape, bool)
    for sector, (y, x) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1))):
        ahead, behind = (np.roll(size, (k * y, k * x), (1, 2)) for k in (-1, 1))
        ridge |= (sectors == sector) & (size >= ahead) & (size > behind)
    return np.stack([_connected(r, s) for r, s in zip(ridge, size, strict=True)])


def _connected(
    ridge: Bool[np.ndarray, "h w"], size: Float[np.ndarray, "h w"]
) -> Bool[np.ndarray, "h w"]:
    """Keep weak edges only where they are connected with strong ones."""
    weak = ridge & (size > 0.4)
    pieces, _ = ndimage.label(weak, np.ones((3, 3)))
    return weak & np.isin(pieces, np.unique(pieces[weak & (size > 0.8)]))


def _signs(images: Images, random: np.random.Generator) -> Float[np.ndarray, " n"]:
    return random.choice([-1.0, 1.0], len(images))


def _blur(images: Images, sigma: float) -> Images:
    blurred: np.ndarray = ndimage.gaussian_filter(images, (0, sigma, sigma))
    return blurred


def _shift(images: Images, pixels: Float[np.ndarray, "n 2"]) -> Images:
    """Shift images by (x, y) pixels."""
    matrices = np.broadcast_to(np.eye(2), (len(images), 2, 2))
    return _warp(images, matrices, -2 * pixels / np.array(images.shape[:0:-1]))


def _warp(
    images: Images,
    matrices: Float[np.ndarray, "n 2 2"],
    offsets: Float[np.ndarray, "n 2"] | None = None,
) -> Images:
    """Take every pixel from the place that an affine map gives, black where there is no image.

    Places are (x, y) from the centre, in units of half an image.
    """
    offsets = np.zeros((len(images), 2)) if offsets is None else offsets
    maps = torch.from_numpy(np.concatenate([matrices, offsets[:, :, None]], axis=2)).float()
    stack = torch.from_numpy(images)[:, None].float()
    grid = affine_grid(maps, list(stack.shape), align_corners=False)
    warped: np.ndarray = grid_sample(stack, grid, align_corners=False)[:, 0].numpy()
    return warped


def _line(
    images: Images, random: np.random.Generator, steps: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "n p 2"]:
    """Place points (x, y) on a line from the left side to the right, heights drawn at random."""
    _, height, width = images.shape
    ends = random.uniform(0.2, 0.8, (len(images), 2, 1)) * (height - 1)
    y = ends[:, 0] * (1 - steps) + ends[:, 1] * steps
    return np.stack([np.broadcast_to(steps * (width - 1), y.shape), y], axis=2)


def _with_dots(images: Images, points: Float[np.ndarray, "n p 2"], *, radius: float) -> Images:
    """Draw white dots of a radius, their rims smooth."""
    y, x = np.mgrid[: images.shape[1], : images.shape[2]]
    drawn = images.copy()
    for start in range(0, len(images), _AT_ONCE):
        part = points[start : start + _AT_ONCE, :, :, None, None]
        distance = np.hypot(x - part[:, :, 0], y - part[:, :, 1]).min(1)
        dots = (radius + 0.5 - distance).clip(0, 1)
        drawn[start : start + _AT_ONCE] = np.maximum(drawn[start : start + _AT_ONCE], dots)
    return drawn


# The fifteen changes of MNIST-C.
KINDS: dict[str, Corrupt] = {
    "rotate": partial(rotate, degrees=30),
    "scale": partial(scale, factor=0.7),
    "shear": partial(shear, amount=0.5),
    "translate": partial(translate, pixels=4),
    "shot noise": partial(shot_noise, photons=4),
    "impulse noise": partial(impulse_noise, share=0.2),
    "glass blur": partial(glass_blur, sigma=0.7),
    "motion blur": partial(motion_blur, pixels=8),
    "brightness": partial(brightness, added=0.4),
    "stripe": stripe,
    "fog": partial(fog, density=1.0),
    "spatter": partial(spatter, share=0.15),
    "dotted line": dotted_line,
    "zigzag": zigzag,
    "canny edges": canny_edges,
}

# How far digits are turned (degrees), resized (factor) and sheared (shift per height).
SWEEPS: dict[str, tuple[float, ...]] = {
    "rotate": (15, 30, 45, 60),
    "scale": (0.5, 0.6, 0.7, 0.85, 1.2),
    "shear": (0.2, 0.4, 0.6, 0.8),
}

CORRUPTIONS: dict[str, Corrupt] = {
    **KINDS,
    **{f"rotate {degrees:g}": partial(rotate, degrees=degrees) for degrees in SWEEPS["rotate"]},
    **{f"scale {factor:g}": partial(scale, factor=factor) for factor in SWEEPS["scale"]},
    **{f"shear {amount:g}": partial(shear, amount=amount) for amount in SWEEPS["shear"]},
}
