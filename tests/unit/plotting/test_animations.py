from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from transop.errors import UserError
from transop.plotting import animate


def steps(count, channels):
    """Make frames that differ: a bar that moves right."""
    frames = np.zeros((count, channels, 12, 12), np.float32)
    for time in range(count):
        frames[time, :, :, time] = 1
    return frames


@pytest.mark.parametrize("channels", [1, 3])
def test_the_frames_go_there_and_back(channels):
    with Image.open(BytesIO(animate(steps(5, channels)))) as movie:
        assert movie.n_frames == 5 + 3
        movie.seek(6)
        column = np.asarray(movie.convert("L"))[0].argmax() // (movie.width // 12)
        assert column == 2  # 0 1 2 3 4 3 2 1


def test_small_frames_are_enlarged():
    with Image.open(BytesIO(animate(steps(4, 1)))) as movie:
        assert movie.width == movie.height == 168


@pytest.mark.parametrize("shape", [(0, 1, 8, 8), (3, 2, 8, 8)])
def test_no_frames_or_two_channels_are_refused(shape):
    with pytest.raises(UserError, match="frames have shape"):
        animate(np.zeros(shape, np.float32))
