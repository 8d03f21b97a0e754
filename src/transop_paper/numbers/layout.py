"""How tables and numbers are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev
from typing import Any

Measurements = Callable[[str], Any]  # gives the content of a JSON file by its name


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [" ".join(["|", *(f"{cell} |".lstrip() for cell in cells)]) for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def from_file(
    name: str, lay_out: Callable[..., str], **options: Any
) -> Callable[[Measurements], str]:
    """Make a table from one file of measurements."""
    return lambda read: lay_out(read(name), **options)


def interval(values: Sequence[float], *, unit: float = 100, digits: int = 1, sign: str = "") -> str:
    """Write mean and half width of the 95 % interval (Student's t); no width of equal values."""
    from scipy.stats import t as student

    centre = f"{unit * mean(values):{sign}.{digits}f}"
    if len(values) < 2 or stdev(values) == 0:
        return centre
    half = student.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{centre} ± {unit * half:.{digits}f}"


def amount(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits, thousands separated."""
    shown = f"{value:.{digits}g}"
    return f"{float(shown):,.0f}" if abs(float(shown)) >= 100 else f"{float(shown):g}"


def percent(share: float) -> str:
    """Write a share of one as a whole number of percent."""
    return f"{100 * share:.0f} %"
