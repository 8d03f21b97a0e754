"""Start one process per device, pass signals on to them, and say what became of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from transop import errors
from transop.errors import ProcessLost, UserError
from transop.sharing import is_launched

_INTERRUPTED = "interrupted"
_REMEDY = "nothing before the last checkpoint is lost: continue with --resume"


def run_on_several(fabric: Any, work: Callable[[Any], Any]) -> None:
    """Let every process of a run do its work; what goes wrong in one of them is raised here.

    Args:
        fabric: starts the processes, or joins those that torchrun has started.
        work: takes the Fabric of its process.

    Raises:
        ProcessLost: a process ended without a word: killed, or out of memory.
        UserError: a process met a mistake of the user's.
        KeyboardInterrupt: the user stopped the run.
    """
    try:
        with _signals_passed_on():
            outcome = fabric.launch(partial(_work_as_one, work=work))
    except ProcessRaisedException as error:
        kind, _, message = str(error).strip().splitlines()[-1].partition(": ")
        if kind.startswith("transop."):
            raised = getattr(errors, kind.rpartition(".")[2], UserError)
            raise raised(message) from None
        raise
    except ProcessExitedException as error:
        name = f" by {error.signal_name}" if error.signal_name else ""
        raise ProcessLost(
            f"process {error.error_index} of the run was ended{name}, so the others were stopped; "
            f"{_REMEDY}"
        ) from None
    if outcome == _INTERRUPTED:
        raise KeyboardInterrupt


def _work_as_one(fabric: Any, *, work: Callable[[Any], Any]) -> str | None:
    """Work as one of several processes; Ctrl-C comes from the parent alone, and only once."""
    if not is_launched() and hasattr(os, "setpgrp"):
        os.setpgrp()  # a terminal would send Ctrl-C to parent and children alike
    try:
        work(fabric)
    except KeyboardInterrupt:
        if is_launched():
            raise
        return _INTERRUPTED
    except RuntimeError as error:
        if _lost_contact(error):
            raise ProcessLost(f"another process of the run has ended; {_REMEDY}") from None
        raise
    return None


def _lost_contact(error: RuntimeError) -> bool:
    """Tell a broken connection between processes from other failures."""
    return isinstance(error, torch.distributed.DistError) or any(
        word in str(error) for word in ("Connection closed by peer", "Connection reset", "gloo")
    )


@contextmanager
def _signals_passed_on() -> Iterator[None]:
    """Pass Ctrl-C and SIGTERM on to the processes and go on waiting for them to finish."""
    if is_launched() or threading.current_thread() is not threading.main_thread():
        yield
        return

    def pass_on(number: int, frame: FrameType | None) -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGINT)

    kept = {s: signal.signal(s, pass_on) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
