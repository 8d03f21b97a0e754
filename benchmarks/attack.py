"""Send nonsense of every kind to transop, each case in a cage, and count how the cases end.

    python benchmarks/attack.py --cases 10000 --seed 0 1 2 --out docs/measurements/attack.json
    python benchmarks/attack.py --kinds models http --cases 500 --seed 3
    python benchmarks/attack.py --kinds python --first 417 --cases 1     # one case again

A case ends well if the input is used, or refused in one clear line (`attacks/__init__.py`). It
falls if it crashes the process, takes too long or too much memory, starts too many processes,
escapes as another exception, ends in exit code 70 or any but 0 and 2, runs code out of the data, or
is accepted although it cannot be meant. Each case depends on the seed, its kind and its number
alone. The exit code is 1 if any case fell. Writes JSON and prints a summary.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Kind, module and class: see the folder `attacks`.
KINDS = {
    "data": ("attacks.files", "Files"),
    "settings": ("attacks.settings", "SettingsAttack"),
    "arguments": ("attacks.arguments", "Arguments"),
    "python": ("attacks.calls", "Calls"),
    "models": ("attacks.models", "Models"),
    "http": ("attacks.requests", "Requests"),
}
_PROBE = {"probe": ("attacks.probe", "Probe")}  # falls on purpose; see the tests
CLEAN = ("used", "refused")
_SECONDS = 20.0  # of one case
_BATCH = 250  # cases of one process
_MEMORY = 3 * 2**30  # bytes that a process may allocate
_LARGEST_FILE = 2**28  # bytes that it may write into one file
_MOST_PROCESSES = 24
# Audit events of the interpreter that mean somebody runs code out of the data.
_FORBIDDEN = {"pickle.find_class", "os.system", "os.exec"}


class Hang(BaseException):
    """A case took too long."""


# Inside the cage


def work(kind: str, first: int, count: int, seed: int, seconds: float, report: Path) -> None:
    """Run cases in this process, one after the other, and write down how each ends."""
    attempts: list[str] = []
    sys.addaudithook(lambda event, _: attempts.append(event) if event in _FORBIDDEN else None)
    signal.signal(signal.SIGALRM, _ring)
    warnings.simplefilter("ignore")
    module, name = {**KINDS, **_PROBE}[kind]
    with tempfile.TemporaryDirectory() as scratch, report.open("w", buffering=1) as lines:
        os.environ["TRANSOP_CACHE"] = str(Path(scratch) / "cache")
        os.chdir(scratch)
        attack = getattr(importlib.import_module(module), name)(Path(scratch))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in range(first, first + count):
            title, run = attack.case(random.Random(f"{seed}/{kind}/{number}"))
            title = title.encode("ascii", "backslashreplace").decode()
            lines.write(json.dumps({"number": number, "case": title}) + "\n")
            attempts.clear()
            start = time.monotonic()
            outcome, detail = _judge(run, seconds)
            if attempts and kind != "arguments":
                outcome, detail = "ran code", attempts[0]
            took = round(time.monotonic() - start, 3)
            detail = detail.replace(scratch, ".").encode("ascii", "backslashreplace").decode()
            lines.write(json.dumps({"outcome": outcome, "detail": detail, "seconds": took}) + "\n")
        attack.close()


def _judge(run: Any, seconds: float) -> tuple[str, str]:
    """Run one case; say how it ended and, if badly, where."""
    from attacks import Fell, Refused

    from transop.errors import UserError

    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        run()
        return "used", ""
    except Refused as refused:
        return "refused", str(refused)[:200]
    except UserError as error:
        return ("refused" if str(error).strip() else "no clear line"), str(error)[:200]
    except Fell as fell:
        return fell.outcome, str(fell)
    except Hang:
        return "hung", _where()
    except MemoryError:
        return "out of memory", _where()
    except (Exception, SystemExit) as error:
        if "can't allocate memory" in str(error):
            return "out of memory", _where()
        return "raw exception", f"{type(error).__name__}: {str(error)[:160]} {_where()}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _where() -> str:
    """Name the innermost function of transop in the current exception."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [frame for frame in frames if f"{os.sep}transop" in frame.filename]
    if not ours:
        return ""
    return f"in {Path(ours[-1].filename).name}, {ours[-1].name}"


def _ring(number: int, frame: Any) -> None:
    raise Hang


# Outside


def run_kind(
    kind: str, first: int, n_cases: int, seed: int, seconds: float = _SECONDS
) -> Iterator[dict[str, Any]]:
    """Run cases of one kind in processes of their own; a new one replaces one that died."""
    number, end = first, first + n_cases
    while number < end:
        count = min(_BATCH, end - number)
        done = list(_cage(kind, number, count, seed, seconds))
        yield from done
        number += len(done)


def _cage(kind: str, first: int, count: int, seed: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Run a batch and give its results, up to and including a case that ends the process."""
    with tempfile.TemporaryDirectory() as scratch:
        report, log = Path(scratch) / "report", Path(scratch) / "log"
        command = [sys.executable, __file__, "--kinds", kind, "--first", str(first)]
        command += ["--cases", str(count), "--seed", str(seed), "--report", str(report)]
        command += ["--seconds", str(seconds)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": scratch}
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command, stdout=stream, stderr=stream, env=environment, start_new_session=True
            )
            verdict = _watch(process, report, 2 * seconds + 10)
        lines = [json.loads(line) for line in report.read_text().splitlines() if line]
        if not lines:
            raise SystemExit(f"{kind} could not start:\n{log.read_text()[-3000:]}")
        cases, ends = lines[::2], lines[1::2]
        for case, end in zip(cases, ends, strict=False):
            yield {"kind": kind, **case, **end}
        if len(ends) < len(cases):
            reason = verdict or ("crashed", f"the process ended with {process.returncode}")
            yield {"kind": kind, **cases[-1], "outcome": reason[0], "detail": reason[1]}
        elif len(ends) < count:
            raise SystemExit(f"{kind} stopped between cases:\n{log.read_text()[-3000:]}")


def _watch(
    process: subprocess.Popen[bytes], report: Path, patience: float
) -> tuple[str, str] | None:
    """Wait for a process; end it if a case hangs or starts too many others, and say why."""
    size, since = -1, time.monotonic()
    verdict = None
    while process.poll() is None and verdict is None:
        time.sleep(0.1)
        now = report.stat().st_size if report.exists() else 0
        if now != size or now == 0:
            size, since = now, (time.monotonic() if now else since)
        if time.monotonic() - since > (patience if now else patience + 300):
            verdict = "hung", f"no answer for {patience:.0f} seconds"
        if _session_size(process.pid) > _MOST_PROCESSES:
            verdict = "crashed", f"started more than {_MOST_PROCESSES} processes"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it started goes too
    process.wait()
    return verdict


def _session_size(session: int) -> int:
    """Count the processes of a session."""
    count = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                count += os.getsid(int(folder.name)) == session
            except OSError:
                continue
    return count


def sum_up(results: list[dict[str, Any]], seeds: list[int], seconds: float) -> dict[str, Any]:
    """Count outcomes, in all and by kind, and list the cases that fell."""
    by_kind: dict[str, Counter[str]] = {}
    for result in results:
        by_kind.setdefault(result["kind"], Counter())[result["outcome"]] += 1
    fallen = [result for result in results if result["outcome"] not in CLEAN]
    total = Counter(result["outcome"] for result in results)
    return {
        "seeds": seeds,
        "tried": len(results),
        "clean": len(results) - len(fallen),
        "fallen": len(fallen),
        "outcomes": dict(total),
        "by_kind": {kind: {"tried": c.total(), **c} for kind, c in by_kind.items()},
        "seconds": round(seconds),
        "slowest_seconds": max((r.get("seconds", 0) for r in results), default=0),
        "fallen_cases": fallen[:500],
    }


def describe(found: dict[str, Any]) -> str:
    """Write the counts of every kind, and list the first cases that fell."""
    lines = [f"{kind}: {json.dumps(counts)}" for kind, counts in found["by_kind"].items()]
    lines.append(f"{found['fallen']} of {found['tried']} fell (seeds {found['seeds']})")
    for case in found["fallen_cases"][:50]:
        place = f"{case['kind']}, seed {case['seed']}, number {case['number']}"
        lines.append(f"{case['outcome']}: {place}: {case['case'][:120]}: {case['detail'][:200]}")
    return "\n".join(lines)


def main() -> int:
    """Attack, print, store; the exit code is 1 if any case fell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, *_PROBE], default=list(KINDS))
    parser.add_argument("--cases", type=int, default=10_000, help="of all kinds together")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of a kind")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="one or several")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of one case")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        wanted = (options.first, options.cases, options.seed[0], options.seconds, options.report)
        work(options.kinds[0], *wanted)
        return 0
    start, results = time.monotonic(), []
    rounds = [(kind, seed) for seed in options.seed for kind in options.kinds]
    for place, (kind, seed) in enumerate(rounds):
        share = len(range(place, options.cases, len(rounds)))
        for result in run_kind(kind, options.first, share, seed, options.seconds):
            results.append({"seed": seed, **result})
            if len(results) % 500 == 0:
                print(f"{len(results)} cases", file=sys.stderr, flush=True)
    found = sum_up(results, options.seed, time.monotonic() - start)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n")
    print(describe(found))
    return 0 if not found["fallen"] else 1


if __name__ == "__main__":
    sys.exit(main())
