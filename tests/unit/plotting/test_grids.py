import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from transop.errors import UserError
from transop.plotting import compose_grid, image_grid


def test_every_image_stands_at_its_place_on_the_canvas():
    images = np.random.default_rng(0).random((2, 3, 3, 5, 4)).astype(np.float32)
    canvas = compose_grid(images, gap=2)
    assert canvas.shape == (2 * 5 + 2, 3 * 4 + 2 * 2, 3)
    np.testing.assert_array_equal(canvas[7:12, 12:16], images[1, 2].transpose(1, 2, 0))
    assert (canvas[5:7] == 1).all()


def test_grey_images_become_grey_and_values_are_clipped():
    canvas = compose_grid(np.full((1, 1, 1, 2, 2), 7.0, np.float32), gap=1)
    np.testing.assert_array_equal(canvas, np.ones((2, 2, 3)))


def test_labels_and_boxes_are_drawn():
    figure = image_grid(
        np.zeros((2, 3, 1, 8, 8), np.float32),
        title="paths",
        row_labels=["a", "b"],
        column_labels=["0", "1", "2"],
        boxed=[(0, 1)],
    )
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
    assert len(axes.patches) == 1


def test_a_wrong_number_of_labels_is_refused():
    with pytest.raises(UserError, match="row_labels has 1 entries for 2"):
        image_grid(np.zeros((2, 3, 1, 8, 8), np.float32), row_labels=["a"])


def test_two_channels_are_refused():
    with pytest.raises(UserError, match="1 or 3 channels, got 2"):
        image_grid(np.zeros((1, 1, 2, 8, 8), np.float32))


@pytest.mark.parametrize("n_rows", [2, 23])
def test_long_row_labels_are_not_cut_off(n_rows):
    names = ["background level"] * n_rows
    figure = image_grid(np.zeros((n_rows, 7, 3, 16, 16), np.float32), row_labels=names)
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    assert min(label.get_window_extent().x0 for label in axes.get_yticklabels()) >= 0
