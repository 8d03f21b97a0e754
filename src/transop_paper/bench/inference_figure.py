"""Draw the inference benchmark as the paper's figure: time per solver on a logarithmic axis."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.plotting import COLOURS, look, new_figure
from transop_paper.bench.inference import DISTANCES, InferenceBenchmark, SizeReport, SweepPoint


def draw_inference(report: InferenceBenchmark) -> Figure:
    """Draw one panel per problem size, and a second row with the sweep if there is one."""
    with look():
        rows = 2 if report.sweep else 1
        figure = new_figure(8.5, 3.4 * rows)
        parts = figure.subfigures(rows, 1, squeeze=False)
        panels = parts[0, 0].subplots(1, len(report.sizes), sharey=True, squeeze=False)[0]
        for axes, size in zip(panels, report.sizes, strict=True):
            _draw_times(axes, size)
        seconds = [value for size in report.sizes for run in size.runs for value in run.seconds]
        panels[0].set(yscale="log", ylim=(min(seconds) / 3, max(seconds) * 8))
        panels[0].set_ylabel("seconds per batch")
        if report.sweep:
            _draw_sweep(parts[1, 0].subplots(1, len(DISTANCES), sharey=True), report.sweep)
    return figure


def _draw_times(axes: Axes, report: SizeReport) -> None:
    for position, run in enumerate(report.runs):
        colour = COLOURS[0] if position == 0 else COLOURS[1]
        axes.bar(position, run.median_seconds, width=0.6, color=colour, alpha=0.35)
        axes.scatter([position] * len(run.seconds), run.seconds, s=9, color=colour, zorder=3)
        text = f"{run.median_seconds * 1e3:.3g} ms"
        if position > 0:
            text = f"{run.median_seconds:.2g} s\n{run.ratio:,.0f} x"
        axes.annotate(
            text,
            (position, max(run.seconds)),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
        )
    names = [run.solver.replace("-", "-\n", 1) for run in report.runs]
    axes.set_xticks(range(len(names)), names, fontsize=8)
    size = report.size
    axes.set_title(f"latent {size.dimension}, {size.n_operators} operators, {size.n_pairs} pairs")


def _draw_sweep(panels: Sequence[Axes], points: Sequence[SweepPoint]) -> None:
    """Draw the time per pair over the dimension, near pairs and far pairs side by side."""
    for axes, distance in zip(panels, DISTANCES, strict=True):
        mine = [p for p in points if p.distance == distance and p.size.n_blocks == 1]
        cut = [p for p in points if p.distance == distance and p.size.n_blocks > 1]
        slow = [p for p in mine if p.reference_seconds is not None]
        for some, style, label in ((mine, "o-", "gauss-newton"), (cut, "D", "in blocks")):
            values = [p.seconds / p.size.n_pairs for p in some]
            axes.plot(
                [p.size.dimension for p in some], values, style, color=COLOURS[0], label=label
            )
        values = [(p.reference_seconds or 0.0) / p.size.n_pairs for p in slow]
        places = [p.size.dimension for p in slow]
        axes.plot(places, values, "s--", color=COLOURS[1], label="proximal-nesterov")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(f"latent dimension, {distance} pairs")
        dimensions = sorted({p.size.dimension for p in points})
        axes.set_xticks(dimensions, [str(d) for d in dimensions])
        axes.minorticks_off()
    panels[0].set_ylabel("seconds per pair")
    panels[1].legend(loc="center right", fontsize=8)
