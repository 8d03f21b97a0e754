"""What a command may say and where: results to stdout, everything else to stderr.

A command receives the ``Terminal`` as ``ctx.obj``. Bars are drawn only when stderr is a terminal;
what the library logs appears as lines, or beside the bar while one is drawn.
"""

import json
import logging
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

Item = TypeVar("Item")
logger = logging.getLogger("transop")
_PACKAGE = Path(__file__).parents[1]
_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?\s?%?")


class Interrupted(Exception):
    """Ctrl-C in a command that can go on later; the message says how."""


class Terminal:
    """The streams of one call of the command line, and how much to say on them."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, debug: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.debug = debug
        self.stdout = Console(highlight=False, soft_wrap=True)
        self.stderr = Console(stderr=True, highlight=False, soft_wrap=True)
        self.progress = ProgressBars(self)
        self._listen_to_the_library()

    def result(self, text: str) -> None:
        """Write a line of results to stdout."""
        self.stdout.print(text, markup=False)

    def result_json(self, value: Any) -> None:
        """Write a value to stdout as JSON that a program can read."""
        self.stdout.file.write(json.dumps(value, indent=2) + "\n")

    def result_table(
        self, title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]]
    ) -> None:
        """Write a table to stdout; columns of numbers are aligned right."""
        cells = [list(row) for row in rows]
        table = Table(title=title, title_justify="left")
        for position, column in enumerate(columns):
            numeric = all(_NUMBER.fullmatch(row[position]) for row in cells)
            table.add_column(column, justify="right" if numeric else "left")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        self.stdout.print(table)

    def notice(self, text: str) -> None:
        """Tell what is going on, unless the user asked for quiet."""
        if not self.quiet:
            self.stderr.print(text, markup=False)

    def error(self, text: str) -> None:
        """Write one line about what went wrong; quiet does not silence it."""
        self.stderr.print(Text.assemble(("error:", "bold red"), " ", text))

    @contextmanager
    def resumable(self, remedy: str) -> Iterator[None]:
        """Turn Ctrl-C inside the block into a line that says how to go on."""
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(remedy) from None

    def _listen_to_the_library(self) -> None:
        """Show what transop logs; a handler left by an earlier call is replaced."""
        for handler in list(logger.handlers):
            if isinstance(handler, _LogLines):
                logger.removeHandler(handler)
        handler = _LogLines(self)
        level = logging.DEBUG if self.debug else logging.INFO
        handler.setLevel(logging.ERROR if self.quiet else level)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False  # otherwise a configured root logger says everything twice
        warnings.showwarning = _show_warning


class ProgressBars:
    """A ``transop.progress.Progress`` that draws bars on a terminal and logs lines elsewhere."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._bars: Progress | None = None
        self._depth = 0

    def __call__(
        self, items: Iterable[Item], description: str, total: int | None = None
    ) -> Iterator[Item]:
        """Yield the items, showing how far they have come."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        if self._terminal.stderr.is_terminal and not self._terminal.quiet:
            return self._drawn(items, description, total)
        return self._logged(items, description, total)

    def _logged(self, items: Iterable[Item], description: str, total: int | None) -> Iterator[Item]:
        if not self._terminal.verbose:
            yield from items
            return
        self._terminal.notice(f"{description} ..." if total is None else f"{description}: {total}")
        start = time.monotonic()
        yield from items
        self._terminal.notice(f"{description}: done in {time.monotonic() - start:.1f} s")

    def _drawn(self, items: Iterable[Item], description: str, total: int | None) -> Iterator[Item]:
        """Draw a bar; the outermost one starts the display and ends it."""
        if self._bars is None:
            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeRemainingColumn(elapsed_when_finished=True),
                TextColumn("{task.fields[status]}", style="dim", markup=False),
                console=self._terminal.stderr,
                transient=True,
            )
            self._bars.start()
        bars = self._bars
        self._depth += 1
        task = bars.add_task(description, total=total, status="")
        try:
            for item in items:
                yield item
                bars.advance(task)
        finally:
            bars.remove_task(task)
            self._depth -= 1
            if self._depth == 0:
                bars.stop()
                self._bars = None

    def status(self, text: str) -> None:
        """Write beside the innermost bar, in place of what stood there."""
        if self._bars is not None and self._bars.task_ids:
            self._bars.update(self._bars.task_ids[-1], status=text)


class _LogLines(logging.Handler):
    """Shows records as lines; plain news goes beside the bar unless the user wants every line."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        terminal = self._terminal
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            label = f"{record.levelname.lower()}:"
            terminal.stderr.print(Text.assemble((label, "yellow"), " ", text))
        elif terminal.verbose or terminal.debug:
            terminal.stderr.print(text, markup=False)
        else:
            terminal.progress.status(text)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show our own warnings as one line; other packages' only to those who debug."""
    del file, line
    ours = category.__module__.startswith("transop.") or Path(filename).is_relative_to(_PACKAGE)
    level = logging.WARNING if ours else logging.DEBUG
    where = "" if ours else f" ({category.__name__}, {filename}:{lineno})"
    logger.log(level, "%s%s", message, where)


def make_streams_forgiving() -> None:
    """Let names that the terminal's encoding lacks be escaped instead of stopping the program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
