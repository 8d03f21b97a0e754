"""The command line: parse, call the library, print.

One file per command, registered in ``COMMANDS``. These files are all imported for ``--help``, so
they import the library, and whatever needs torch or pydantic, inside their functions only.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from transop.extras import plugged_in
from transop_app.cli import (
    augment,
    data,
    demo,
    explore,
    fit,
    invariance,
    label,
    options,
    path,
    report,
    train,
)
from transop_app.cli.data import show_dataset
from transop_app.cli.terminal import Interrupted, Terminal, make_streams_forgiving
from transop_app.cli.train import overrides, train_in_folder

# What commands of other packages may use.
__all__ = ["Terminal", "main", "options", "overrides", "run", "show_dataset", "train_in_folder"]

# A function becomes a command, a typer.Typer a group of them; --help keeps this order.
COMMANDS: dict[str, Callable[..., Any] | typer.Typer] = {
    "demo": demo.demo,
    "fit": fit.fit,
    "train": train.train,
    "label": label.label,
    "path": path.path,
    "augment": augment.augment,
    "invariance": invariance.invariance,
    "explore": explore.explore,
    "data": data.data,
    "report": report.report,
}

# Further commands, such as the reproduction's ``paper`` and ``bench``: entry points of this group.
COMMAND_GROUP = "transop.commands"

_USER_MISTAKE, _FAILED, _BUG, _INTERRUPTED = 2, 1, 70, 130
_IMPOSSIBLE_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EILSEQ)
_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_GLOBAL_FLAGS = {"--quiet", "-q", "--verbose", "-v", "--debug"}


def _show_version(wanted: bool) -> None:
    if wanted:
        from transop import __version__

        typer.echo(f"transop {__version__}")
        raise typer.Exit


def start(
    ctx: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Say all; tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Learn identity-preserving transformations from unlabelled images.

    Results go to stdout, everything else to stderr. --quiet, --verbose and --debug may come last.

    Exit codes: 0 done, 2 a mistake in what was asked, 1 the machine failed
    (a full disk, say), 130 stopped with Ctrl-C, 70 a bug of ours.
    """
    del version
    ctx.obj = Terminal(quiet=quiet, verbose=verbose or debug, debug=debug)


def build_app() -> typer.Typer:
    """Put the commands together."""
    app = typer.Typer(
        name="transop",
        callback=start,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    for name, command in {**COMMANDS, **plugged_in(COMMAND_GROUP)}.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def main() -> None:
    """Run the command line on the program's arguments and exit."""
    # Threads of torch that wait for each other soon fall asleep. While they spin they keep the
    # thread they wait for from running, if other programs use the processor too.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    make_streams_forgiving()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code; whatever goes wrong becomes one line on stderr."""
    arguments = _flags_first(arguments) or ["--help"]
    try:
        code = build_app()(arguments, prog_name="transop", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        return _report(error, debug="--debug" in arguments)
    if code == _INTERRUPTED:
        return _report(Interrupted("stopped"), debug=False)
    return code if isinstance(code, int) else 0


def _flags_first(arguments: Sequence[str]) -> list[str]:
    """Move --quiet and its like to the front, so that they may stand after the command too."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head, tail = list(arguments[:end]), list(arguments[end:])
    flags = [argument for argument in head if argument in _GLOBAL_FLAGS]
    return flags + [argument for argument in head if argument not in _GLOBAL_FLAGS] + tail


def _report(error: Exception, *, debug: bool) -> int:
    """Say what went wrong in one line and choose the exit code."""
    from transop.errors import ProcessLost, UserError

    terminal = Terminal(debug=debug)
    if debug:
        terminal.stderr.print(traceback.format_exc(), markup=False)
    if isinstance(error, Interrupted):
        terminal.stderr.print(f"\n{error}", markup=False)
        return _INTERRUPTED
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "transop"
        terminal.error(f"{error.format_message()} (see '{command} --help')")
        return _USER_MISTAKE
    if isinstance(error, UserError):
        terminal.error(str(error))
        # A full or broken disk is no mistake, also where the library has put it into words.
        failed = isinstance(error, ProcessLost) or (
            isinstance(cause := error.__context__, OSError) and cause.errno in _DISK_FAILURES
        )
        return _FAILED if failed else _USER_MISTAKE
    if isinstance(error, BrokenPipeError):
        # Point stdout nowhere, or Python complains about the broken pipe once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    if isinstance(error, OSError):
        terminal.error(_system_line(error))
        return _USER_MISTAKE if error.errno in _IMPOSSIBLE_NAMES else _FAILED
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        terminal.error(f"out of memory ({error}); a smaller batch_size or image_size needs less")
        return _FAILED
    hint = "" if debug else "; --debug shows where"
    terminal.error(f"{type(error).__name__}: {error} (this is a bug of transop, not yours{hint})")
    return _BUG


def _system_line(error: OSError) -> str:
    """Say what the operating system refused, about which file, and what to do."""
    from transop.errors import shorten

    remedies = {
        errno.ENOSPC: "free some space or choose another --out",
        errno.EDQUOT: "free some space or choose another --out",
        errno.EROFS: "choose a folder you may write to",
        errno.EACCES: "choose a file or folder you have access to",
        errno.ENAMETOOLONG: "choose a shorter name",
    }
    reason = error.strerror or str(error) or type(error).__name__
    about = f" '{shorten(str(error.filename))}'" if error.filename is not None else ""
    remedy = remedies.get(error.errno or 0)
    return f"{reason}{about}" + (f"; {remedy}" if remedy else "")
