"""The animation of the README is drawn from any run that has a coefficient encoder."""

import runpy
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

import transop

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "animation.py"))


def test_a_typical_image_of_every_class_swings_along_every_operator(full_run):
    frames = SCRIPT["swing"](transop.Run.open(full_run), 2, n_frames=4)
    assert frames.shape == (4, 2, 3, 1, 16, 16)
    np.testing.assert_allclose(frames[0, 0], frames[0, 1], atol=1e-5)  # nothing has moved yet
    np.testing.assert_allclose(frames[0], frames[2], atol=1e-4)  # half way through the swing
    assert (np.abs(frames[1] - frames[3]).max(axis=(2, 3, 4)) > 1e-3).all()


def test_the_frames_become_an_endless_animation():
    frames = np.random.default_rng(0).random((3, 2, 3, 1, 16, 16))
    picture = Image.open(BytesIO(SCRIPT["animate"](frames)))
    assert (picture.format, picture.n_frames, picture.info["loop"]) == ("WEBP", 3, 0)
    assert picture.size == (2 * (3 * 16 + 2 * 2), 2 * (2 * 16 + 2))
