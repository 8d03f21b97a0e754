"""Put facts and pictures into the page."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from transop import __version__
from transop.artifacts import RunFolder, write_atomically
from transop.report.facts import duration, read_facts
from transop.report.pictures import collect_pictures, kept_identity, training_curves


def render_report(run: Path) -> str:
    """Describe a run as one HTML page that needs nothing outside itself.

    Args:
        run: the run folder.

    Returns:
        The page; pictures are inside it.
    """
    folder = RunFolder(run)
    facts = read_facts(folder)
    kept = kept_identity(folder)
    template = resources.files("transop.report").joinpath("page.html.jinja").read_text("utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(
        facts=facts,
        name=run.resolve().name,
        run=str(run),
        total=duration(facts.seconds),
        curves=training_curves(folder),
        pictures=[*collect_pictures(folder.figures), *([kept] if kept else [])],
        version=__version__,
    )


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the page into the run folder, or elsewhere, and give its path."""
    path = out or run / "report.html"
    write_atomically(path, render_report(run).encode())
    return path
