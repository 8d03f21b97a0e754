"""Inputs that nobody should send, by kind. `benchmarks/attack.py` sends them and counts.

An attack makes numbered cases. A case ends well if the input is used, or if it is refused in one
clear line: by a `UserError` in Python, by exit code 2 on the command line, by a status below 500
over HTTP.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Case = tuple[str, Callable[[], Any]]  # a name, and what to do


class Attack(ABC):
    """Cases of one kind of input, from good files in a scratch folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def case(self, chance: random.Random) -> Case:
        """Make up one case; the same chance makes the same case."""

    def close(self) -> None:  # noqa: B027  (most start nothing)
        """Stop what was started."""


class Refused(Exception):
    """The input was refused as it should be."""


class Fell(Exception):
    """The case ended as it must not."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome


def damage(content: bytes, chance: random.Random) -> bytes:
    """Change a file a little: flip, overwrite, cut, repeat, insert or drop bytes."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        if not changed:
            return chance.randbytes(chance.randrange(64))
        place = chance.randrange(len(changed))
        size = chance.choice((1, 1, 2, 4, 8, 64))
        kind = chance.randrange(7)
        if kind == 0:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[place : place + size] = chance.randbytes(size)
        elif kind == 2:
            del changed[place:]
        elif kind == 3:
            changed[place:place] = changed[place : place + size]
        elif kind == 4:
            del changed[place : place + size]
        elif kind == 5:
            extreme = chance.choice((0, 1, 2**31 - 1, 2**32 - 1))
            changed[place : place + 4] = extreme.to_bytes(4, chance.choice(("big", "little")))
        else:
            changed[place : place + size] = b"\xff" * size
    return bytes(changed)


# Values that stand where another kind of value should.
HOSTILE: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "half": 0.5,
    "2.5": 2.5,
    "100.0": 100.0,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "1e308": 1e308,
    "2**31": 2**31,
    "2**63": 2**63,
    "10**20": 10**20,
    "-10**20": -(10**20),
    "10**7": 10**7,
    "10**400": 10**400,
    "empty text": "",
    "text": "x",
    "number as text": "2",
    "nul": "\0",
    "surrogate": "\ud800",
    "long text": "x" * 5000,
    "path out": "../../../etc/passwd",
    "markup": "<script>alert(1)</script>",
    "empty list": [],
    "list": [1, "x", None],
    "nested list": [[[[]]]],
    "dict": {"a": 1},
}


def plain_value(chance: random.Random) -> tuple[str, Any]:
    """Draw a hostile value that JSON or TOML might carry, or a random number."""
    if chance.random() < 0.25:
        number = chance.choice((chance.randint(-(2**40), 2**40), chance.gauss(0, 1e6)))
        return f"{number:.6g}", number
    name = chance.choice(list(HOSTILE))
    return name, HOSTILE[name]


def command_line(arguments: list[str]) -> None:
    """Run a command in this process and judge its exit code and what it says."""
    from transop_app import cli

    with _captured() as said:
        code = cli.run(arguments)
        text = said()
    if "Traceback (most recent call last)" in text:
        raise Fell("raw exception", text[-600:])
    if code == 0:
        return
    if code != 2:
        raise Fell(f"exit code {code}", text[-400:])
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    if len(errors) != 1 or len(errors[0]) < 12:
        raise Fell("no clear line", text[-400:])
    raise Refused(errors[0])


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], str]]:
    """Collect what this process and its children write to both streams."""
    import sys

    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)

        def read() -> str:
            sys.stdout.flush()
            sys.stderr.flush()
            file.seek(0)
            return file.read(10**6).decode(errors="replace")

        try:
            yield read
        finally:
            with contextlib.suppress(ValueError, OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)
