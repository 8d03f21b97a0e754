"""Maps of scales, and figures on disk."""

import numpy as np

from transop.plotting import Block, image_grid
from transop_app.report.maps import scale_map
from transop_app.report.saved import save_figure


def test_a_scale_map_shows_the_table_and_its_strips():
    frames = np.random.default_rng(0).random((1, 5, 1, 6, 6)).astype(np.float32)
    strips = [Block(frames, "high")], [Block(frames, "low")]
    figure = scale_map(np.eye(3), *strips, row_labels=list("abc"), column_labels=list("012"))
    assert {"high", "low"} <= {axes.get_title(loc="left") for axes in figure.axes}


def test_a_saved_figure_is_the_same_file_every_time(tmp_path):
    for name in ("first", "second"):
        figure = image_grid(np.zeros((1, 2, 1, 8, 8), np.float32), title="strip")
        save_figure(figure, tmp_path / f"a.b-{name}")
    for suffix in ("png", "svg"):
        first = (tmp_path / f"a.b-first.{suffix}").read_bytes()
        assert first == (tmp_path / f"a.b-second.{suffix}").read_bytes()
