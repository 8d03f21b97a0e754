"""The tables of the docs, written from the stored measurements.

A page marks a table like this, and nothing between the marks is written by hand:

    <!-- numbers: kept-identity-mnist -->
    ...
    <!-- end -->

``TABLES`` says how each name becomes a Markdown table, from the JSON files in docs/measurements. A
sentence takes its numbers from the same tables, by row and column:

    a graph alone gives <!-- cell: contest-mnist | Poisson | accuracy -->97.9<!-- end --> %

A test fails where a page shows anything else; ``transop paper numbers`` writes all of them anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from transop.artifacts import read_json, write_atomically
from transop.errors import UserError, show
from transop_paper.numbers.expected import EXPECTED
from transop_paper.numbers.layout import Measurements, interval
from transop_paper.numbers.quality import QUALITY
from transop_paper.numbers.scarce import SCARCE
from transop_paper.numbers.speed import SPEED
from transop_paper.numbers.studies import STUDIES
from transop_paper.numbers.truth import TRUTH

__all__ = ["TABLES", "interval", "refresh", "refresh_pages", "render"]

# Name in a page's mark, and the function that writes the table.
TABLES = {**QUALITY, **SCARCE, **STUDIES, **EXPECTED, **SPEED, **TRUTH}

_BLOCK = re.compile(r"<!-- numbers: (?P<name>[^\n]*?) -->\n.*?<!-- end -->", re.DOTALL)
_CELL = re.compile(r"(?P<mark><!-- cell: (?P<place>[^\n]*?) -->)[^\n]*?<!-- end -->")


def refresh(text: str, folder: Path) -> str:
    """Write every marked table and number of a page anew from the measurements in a folder."""

    def read(name: str) -> Any:
        return read_json(folder / f"{name}.json")

    def table(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- numbers: {name} -->\n\n{render(name, read)}\n\n<!-- end -->"

    def number(found: re.Match[str]) -> str:
        return f"{found['mark']}{_cell(found['place'], read)}<!-- end -->"

    return _CELL.sub(number, _BLOCK.sub(table, text))


def _cell(place: str, read: Measurements) -> str:
    """Find what a table says in one row and column."""
    name, row, column = place.split(" | ")
    head, _, *rows = (
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in render(name, read).splitlines()
    )
    found = {cells[0]: cells for cells in rows}
    for kind, wanted, there in (("row", row, list(found)), ("column", column, head)):
        if wanted not in there:
            what = f"table {show(name)} has no {kind} {show(wanted)}"
            raise UserError(f"{what}; choose from {', '.join(there)}")
    return found[row][head.index(column)]


def render(name: str, read: Measurements) -> str:
    """Write one table."""
    if name not in TABLES:
        raise UserError(f"there is no table {show(name)}; choose from {', '.join(TABLES)}")
    return TABLES[name](read)


def refresh_pages(root: Path) -> list[Path]:
    """Write the marked tables of README.md and of all pages below docs; give what changed."""
    changed = []
    for page in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        before = page.read_text("utf-8")
        after = refresh(before, root / "docs" / "measurements")
        if after != before:
            write_atomically(page, after.encode())
            changed.append(page)
    return changed
