"""Inference time.

How long each solver takes to infer the coefficients of one batch of pairs, on this run's operators;
every dot is a trial, the large one their median, and the axis is logarithmic. All solvers start at
the same coefficients and minimise the same objective; how close each came to the best is written
beside it. The default solver stands there twice: once as it is, once with the best of ten starts
for every pair. A slow solver gets fewer trials.
"""

import time
import warnings
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from torch import Tensor

from transop.inference import ConvergenceWarning, infer_coefficients
from transop.plotting import COLOURS, FAINT, MUTED, new_figure
from transop_paper.contenders import ALL_SOLVERS
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun

_START_DEVIATION = 0.02  # the paper's draw of first coefficients
_OURS, _STARTS = "gauss-newton", 10
# What is timed: a solver's name, and from how many starts.
_CONTENDERS = {
    f"{_OURS}, best of {_STARTS}": (_OURS, _STARTS),
    **{name: (name, 1) for name in ALL_SOLVERS},
}
_PATIENCE, _FEWEST = 60.0, 2  # no trial begins after so many seconds, but for the first few


def compute(run: PaperRun) -> Numbers:
    """Time all solvers on the same batches of the run's pairs, from the same start."""
    pairs = run.pairs(run.settings.pairs.strategy)
    n_pairs, n_trials = run.sized(10, 100), run.sized(2, 10)
    generator = run.generator("inference time")
    rows = run.dataset.splits["train"]
    batches = []
    for _ in range(n_trials):
        starts, ends = pairs.sample(generator, n_pairs)
        batches.append(tuple(run.latents(rows[part.numpy()]) for part in (starts, ends)))
    m = run.model.operators.n_operators
    first = _START_DEVIATION * torch.randn(n_pairs, m, generator=generator)
    found = []
    for solver in run.progress(list(_CONTENDERS), "timing solvers", len(_CONTENDERS)):
        found.append(_trials(run, solver, batches, first))
    seconds, objective, converged = np.array(found).transpose(2, 0, 1)
    by_all = np.isfinite(seconds).all(0)  # batches that every solver solved
    arrays = {
        "seconds": seconds,  # not a number where a trial was left out
        "objective": objective[:, by_all].mean(1),
        "converged": converged[:, by_all].mean(1),
    }
    facts = {
        "solvers": list(_CONTENDERS),
        "n_pairs": n_pairs,
        "n_trials": n_trials,
        "n_operators": m,
        "dimension": run.model.latent_dimension,
        "threads": torch.get_num_threads(),
    }
    return Numbers(arrays, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw the trials of every solver on a logarithmic axis, the fastest on top."""
    facts, seconds, objective = numbers.facts, numbers["seconds"], numbers["objective"]
    middle = np.nanmedian(seconds, axis=1)
    order, readable = np.argsort(-middle), EngFormatter("s")
    figure = new_figure(7.2, 0.42 * len(order) + 1.1)
    axes = figure.add_subplot(
        title=f"{facts['n_pairs']} pairs, latent {facts['dimension']}, "
        f"{facts['n_operators']} operators"
    )
    for place, i in enumerate(order):
        colour = COLOURS[0] if place == len(order) - 1 else MUTED
        axes.plot([middle.min(), middle[i]], [place, place], color=FAINT, linewidth=5, zorder=0)
        axes.plot(seconds[i], np.full(len(seconds[i]), place), ".", color=colour, alpha=0.35)
        axes.plot(middle[i], place, "o", color=colour, markersize=7)
        share = objective[i] / objective.min()
        axes.annotate(
            f"  {readable(float(f'{middle[i]:.3g}'))}  (objective {share:.3f} x the best)",
            (np.nanmax(seconds[i]), place),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=colour,
        )
    axes.set_yticks(range(len(order)), labels=[facts["solvers"][i] for i in order])
    axes.set_xscale("log")
    axes.set_xlabel("seconds for a batch")
    axes.set_xlim(right=np.nanmax(seconds) * 100)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return figure


def _trials(
    run: PaperRun, solver: str, batches: Sequence[tuple[Tensor, ...]], first: Tensor
) -> list[tuple[float, float, float]]:
    """Solve batch after batch, until patience ends."""
    _solve(run, solver, batches[0], first)  # compiles what needs compiling
    trials: list[tuple[float, float, float]] = []
    start = time.perf_counter()
    for batch in batches:
        if len(trials) >= _FEWEST and time.perf_counter() - start > _PATIENCE:
            break
        trials.append(_solve(run, solver, batch, first))
    missing = (float("nan"),) * 3
    return trials + [missing] * (len(batches) - len(trials))


def _solve(
    run: PaperRun, solver: str, batch: tuple[Tensor, ...], first: Tensor
) -> tuple[float, float, float]:
    """Solve one batch: seconds, mean objective and share of pairs that converged."""
    name, n_starts = _CONTENDERS[solver]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        result = infer_coefficients(
            run.model.operators.operators.detach(),
            *batch,
            sparsity_weight=run.model.sparsity_weight,
            solver=ALL_SOLVERS[name],
            restarts=n_starts,
            initial=first.to(batch[0]),
            generator=torch.Generator().manual_seed(0),
        )
        took = time.perf_counter() - start
    return took, float(result.objective.mean()), float(result.converged.float().mean())


FIGURE = PaperFigure(__doc__, "Figure 8", compute, draw)
