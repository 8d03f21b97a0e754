"""Put what a run says about itself, and its pictures, into one page."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from transop import __version__
from transop.artifacts import write_atomically
from transop.run import Run
from transop_app.report.describe import about, duration, headlines, phase_results


def render_report(path: Path) -> str:
    """Describe a run as one HTML page that needs nothing outside itself; pictures are inside it."""
    # Loads Matplotlib, which the explorer does not need for the words of ``describe``.
    from transop_app.report.pictures import collect_pictures, draw_curves, kept_identity

    run = Run.open(path)
    kept = kept_identity(run.folder)
    template = resources.files("transop_app.report").joinpath("page.html.jinja").read_text("utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(
        run=run,
        headlines=headlines(run),
        about=about(run),
        results=phase_results(run),
        total=duration(run.seconds),
        curves=draw_curves(run.folder),
        pictures=[*collect_pictures(run.folder.figures), *([kept] if kept else [])],
        version=__version__,
    )


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the page into the run folder, or elsewhere, and give its path."""
    path = out or run / "report.html"
    write_atomically(path, render_report(run).encode())
    return path
