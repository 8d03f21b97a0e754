"""Cases that fall, one of each sort, to see that the cage notices them."""

from __future__ import annotations

import ctypes
import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks import Attack, Case, Fell
from transop.errors import UserError


def _raise(error: Exception) -> None:
    raise error


def _spin() -> None:
    """Ignore the alarm, as compiled code does."""
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


class _Code:
    def __reduce__(self) -> Any:
        return (os.getcwd, ())


# What is done, and how it must be counted.
PROBES: dict[str, tuple[Callable[[], Any], str]] = {
    "use": (lambda: None, "used"),
    "refuse": (lambda: _raise(UserError("x = 3 must be 2; change it")), "refused"),
    "say nothing": (lambda: _raise(UserError("")), "no clear line"),
    "raise": (lambda: _raise(KeyError("x")), "raw exception"),
    "exit 70": (lambda: _raise(Fell("exit code 70", "")), "exit code 70"),
    "wait": (lambda: time.sleep(10**6), "hung"),
    "allocate": (lambda: bytearray(10**11), "out of memory"),
    "run code": (lambda: pickle.loads(pickle.dumps(_Code())), "ran code"),
    "crash": (lambda: ctypes.string_at(0), "crashed"),
    "spin": (_spin, "hung"),
    "multiply": (
        lambda: [subprocess.Popen(["sleep", "60"]) for _ in range(40)] and time.sleep(5),
        "crashed",
    ),
}


class Probe(Attack):
    """Go through the probes in order, whatever the chance."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.first = int(sys.argv[sys.argv.index("--first") + 1])

    def case(self, chance: random.Random) -> Case:
        """Give the next probe."""
        name = list(PROBES)[self.first]
        self.first += 1
        return name, PROBES[name][0]
