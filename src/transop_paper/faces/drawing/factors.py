"""The continuous factors of a drawn face and how they are distributed.

A face is a row of numbers, one per factor. Amounts run from 0 to 1, directions from -1 to 1,
and hues go round a circle (0 and 1 are the same colour). All factors are independent.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Factor:
    """One number that changes one visible thing.

    Sampling draws u uniformly and maps it to (1 - (1 - u)^(1/b))^(1/a), the Kumaraswamy
    distribution stretched over ``low`` to ``high``: a = b = 1 is uniform, values below 1 gather
    at the ends without ever leaving a gap between them.
    """

    name: str
    meaning: str
    low: float = 0.0
    high: float = 1.0
    a: float = 1.0
    b: float = 1.0
    periodic: bool = False


FACTORS: tuple[Factor, ...] = (
    Factor("skin_tone", "from dark to pale"),
    Factor("face_width", "from slim to round"),
    Factor("jaw", "from pointed to square"),
    Factor("hair_lightness", "from black over brown to blond"),
    Factor("hair_grayness", "from full colour to silver", a=0.3),
    Factor("hair_length", "from cropped to below the shoulders"),
    Factor("bangs", "how far a fringe covers the forehead", a=0.6, b=0.6),
    Factor("baldness", "how far the hairline has receded", a=0.3),
    Factor("smile", "from sulking to beaming", a=0.9, b=0.8),
    Factor("mouth_open", "from closed to wide open", a=0.8),
    Factor("lipstick", "from bare lips to red ones", a=0.5, b=0.7),
    Factor("beard", "from shaven over stubble to full", a=0.4, b=0.8),
    Factor("moustache", "from none to thick", a=0.3, b=0.8),
    Factor("glasses", "from none to a clear pair with dark rims", a=0.2, b=0.8),
    Factor("sunglasses", "from no glasses to black lenses", a=0.15),
    Factor("hat", "how far a knitted hat is pulled down", a=0.2, b=0.7),
    Factor("yaw", "head turned to the left or right of the picture", low=-1.0),
    Factor("tilt", "head leaning to the left or right shoulder", low=-1.0),
    Factor("light_direction", "light from the left or right", low=-1.0),
    Factor("light_level", "from dim to bright"),
    Factor("background_hue", "colour behind the person, round the colour circle", periodic=True),
    Factor("background_level", "from a dark to a bright background"),
    Factor("clothing_hue", "colour of clothes and hat, round the colour circle", periodic=True),
)
FACTOR_NAMES: tuple[str, ...] = tuple(factor.name for factor in FACTORS)


def sample_factors(
    n_faces: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "faces factors"]:
    """Draw random faces as rows of factors, columns in the order of ``FACTOR_NAMES``."""
    u = torch.rand(n_faces, len(FACTORS), generator=generator)
    a, b, low, high = (
        torch.tensor([getattr(factor, field) for factor in FACTORS])
        for field in ("a", "b", "low", "high")
    )
    unit = (1.0 - (1.0 - u) ** (1.0 / b)) ** (1.0 / a)
    return low + (high - low) * unit


def neutral_face() -> Float[Tensor, " factors"]:
    """Give a plain middle-of-the-road face, the starting point of one-factor traversals."""
    values = {
        "skin_tone": 0.62,
        "face_width": 0.45,
        "jaw": 0.5,
        "hair_lightness": 0.45,
        "hair_length": 0.45,
        "smile": 0.65,
        "mouth_open": 0.1,
        "lipstick": 0.15,
        "light_direction": 0.35,
        "light_level": 0.7,
        "background_hue": 0.55,
        "background_level": 0.6,
        "clothing_hue": 0.05,
    }
    return torch.tensor([values.get(name, 0.0) for name in FACTOR_NAMES])
