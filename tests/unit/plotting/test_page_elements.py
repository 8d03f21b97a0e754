"""Blocks and panels: what is asked for is on the page."""

import numpy as np

from transop.plotting import Block, Line, Panel, image_blocks, line_panels, render_figure


def tiles(*shape, size=6):
    return np.random.default_rng(0).random((*shape, 1, size, size)).astype(np.float32)


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_every_block_of_a_page_is_drawn_with_its_title_and_outlines():
    page = [
        [Block(tiles(2, 3), "a", boxed=[(0, 1), (1, 1)]), Block(tiles(2, 3), "b")],
        [Block(tiles(1, 3), "c")],
    ]
    figure = image_blocks(page, headings=["first", "second"])
    assert [t for t in titles(figure) if t] == ["a", "b", "c"]
    assert len(figure.axes[0].patches) == 2
    assert render_figure(figure, "png").startswith(b"\x89PNG")


def test_short_rows_keep_the_size_of_their_images():
    page = [[Block(tiles(2, 6)), Block(tiles(2, 6))], [Block(tiles(2, 6))]]
    figure = image_blocks(page, cell_inches=0.3)
    figure.canvas.draw()
    widths = [axes.get_window_extent().width for axes in figure.axes if axes.images]
    assert max(widths) / min(widths) < 1.1


def test_intervals_marks_and_zero_line_are_drawn():
    x = np.linspace(0, 1, 30)
    lines = [Line("up", x, x, 0.1 + 0 * x), Line("down", x, -x)]
    figure = line_panels([Panel(lines, "t", marks=[0.5], zero=True)])
    (axes,) = figure.axes
    assert len(axes.collections) == 1  # one interval
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["up", "down"]
    assert len(axes.lines) == 6  # two lines, their entries in the legend, the mark and zero


def test_short_lines_show_their_points():
    panels = [Panel([Line("", np.arange(n) * 1.0, np.ones(n))]) for n in (3, 40)]
    figure = line_panels(panels)
    assert [axes.lines[0].get_marker() for axes in figure.axes] == ["o", "None"]
