"""Every operator.

The path of every operator that is still in use after training, applied to a few typical test
images. The outlined middle column is the reconstruction. A good operator does a similar thing to
every row.
"""

import torch
from matplotlib.figure import Figure

from transop.plotting import COLOURS, image_blocks
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.operator_paths import operator_strips, roomy, strip_blocks
from transop_paper.figures.paper_run import PaperRun, as_array

_REACH = 0.7
_EXAMPLES = 6
_PER_ROW = 4


def compute(run: PaperRun) -> Numbers:
    """Move typical images by every living operator."""
    rows, chosen = run.examples()[:_EXAMPLES], run.living_operators
    amounts = torch.linspace(-_REACH, _REACH, 7)
    frames, units = operator_strips(run, chosen, rows, amounts)
    arrays = {"frames": frames, "units": units, "amounts": as_array(amounts)}
    return Numbers(arrays, {"operators": chosen, "n_operators": run.model.operators.n_operators})


def draw(numbers: Numbers) -> Figure:
    """Draw one block per operator, largest first."""
    titles = [f"operator {m}" for m in numbers.facts["operators"]]
    blocks = strip_blocks(numbers["frames"], titles, COLOURS[0])
    page = [blocks[i : i + _PER_ROW] for i in range(0, len(blocks), _PER_ROW)]
    return image_blocks(page, cell_inches=roomy(0.28, numbers["frames"]))


FIGURE = PaperFigure(__doc__, "Figures 15, 17 and 18", compute, draw)
