"""Draw the inference benchmark as the paper's figure: time per solver on a logarithmic axis."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.plotting import COLOURS, look, new_figure
from transop_paper.bench.inference import SWEPT, InferenceBenchmark, SizeReport, SweepPoint

_AXIS_NAMES = {
    "dimension": "latent dimension",
    "n_operators": "operators",
    "n_pairs": "pairs per batch",
}


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
            _draw_sweep(parts[1, 0].subplots(1, len(SWEPT), sharey=True), report.sweep)
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
    for axes, varied in zip(panels, SWEPT, strict=True):
        mine = [point for point in points if point.varied == varied]
        values = [getattr(point.size, varied) for point in mine]
        axes.plot(
            values, [point.seconds for point in mine], "o-", color=COLOURS[0], label="gauss-newton"
        )
        known = [
            (value, point.reference_seconds)
            for value, point in zip(values, mine, strict=True)
            if point.reference_seconds is not None
        ]
        axes.plot(
            [value for value, _ in known],
            [seconds for _, seconds in known],
            "s--",
            color=COLOURS[1],
            label="proximal-nesterov",
        )
        axes.set_xscale("log", base=2 if varied != "n_pairs" else 10)
        axes.set_yscale("log")
        axes.set_xlabel(_AXIS_NAMES[varied])
        axes.set_xticks(values, [f"{value:,}" for value in values])
        axes.minorticks_off()
    panels[0].set_ylabel("seconds per batch")
    panels[1].legend(loc="center", fontsize=8)  # between the two curves
