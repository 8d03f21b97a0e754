"""Start one process per device, pass signals on to them, and say what became of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.synchronize import Event
from types import FrameType
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, not in __all__
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

from transop import errors
from transop.config import RuntimeSettings
from transop.errors import ProcessLost, UserError
from transop.sharing import Ranks, is_launched
from transop.training.session import choose_device, handling_signals

_REMEDY = "nothing before the last checkpoint is lost: continue with --resume"


def run_on_several(runtime: RuntimeSettings, work: Callable[[Ranks], Any]) -> None:
    """Let every process of a run do its work; what goes wrong in one of them is raised here.

    The processes are started here, unless torchrun has started them. ``work`` must be importable
    by name. A process that ended without a word, killed or out of memory, is a `ProcessLost`.
    """
    if is_launched():
        rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = choose_device(runtime, int(os.environ["LOCAL_RANK"]))
        _work_as_one(Ranks(rank, n_ranks, device), None, work)
        return
    stopped = torch.multiprocessing.get_context("spawn").Event()
    # The parent keeps the meeting point, so the system may choose a free port.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    arguments = (runtime, store.port, stopped, work)
    try:
        with handling_signals(_pass_on):
            spawn(_child, arguments, runtime.devices)  # type: ignore[no-untyped-call]
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
    if stopped.is_set():
        raise KeyboardInterrupt


def _child(
    rank: int, runtime: RuntimeSettings, port: int, stopped: Event, work: Callable[[Ranks], Any]
) -> None:
    """Work as a process that was started here; Ctrl-C comes from the parent alone, once."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # a terminal would send Ctrl-C to parent and children alike
    n_ranks = runtime.devices
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // n_ranks))
    store = TCPStore("127.0.0.1", port, is_master=False)
    try:
        _work_as_one(Ranks(rank, n_ranks, choose_device(runtime, rank)), store, work)
    except KeyboardInterrupt:
        stopped.set()


def _work_as_one(ranks: Ranks, store: TCPStore | None, work: Callable[[Ranks], Any]) -> None:
    """Join the other processes and work; without a store, meet them where torchrun says."""
    on_gpu = ranks.device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(ranks.device)
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo", store=store, rank=ranks.rank, world_size=ranks.n_ranks
    )
    try:
        work(ranks)
    except RuntimeError as error:
        if _lost_contact(error):
            raise ProcessLost(f"another process of the run has ended; {_REMEDY}") from None
        raise
    torch.distributed.destroy_process_group()


def _lost_contact(error: RuntimeError) -> bool:
    """Tell a broken connection between processes from other failures."""
    return isinstance(error, torch.distributed.DistError) or any(
        word in str(error) for word in ("Connection closed by peer", "Connection reset", "gloo")
    )


def _pass_on(number: int, frame: FrameType | None) -> None:
    """Send Ctrl-C and SIGTERM to the processes, and go on waiting for them to finish."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            os.kill(child.pid, signal.SIGINT)
