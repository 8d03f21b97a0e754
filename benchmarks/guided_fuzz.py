"""Let a coverage-guided fuzzer look for inputs that the readers do not expect.

    pip install atheris   # only for this script
    python benchmarks/guided_fuzz.py --runs 20000 --json docs/measurements/guided-fuzz.json

Starts from the good files of `benchmarks/fuzz.py` and judges every case as it does, but changes
bytes by what they make the code do: a change that reaches a new branch is kept and changed further.
Each reader has a process of its own. Pictures are left to `fuzz.py`: what reads them is compiled
code, whose branches the fuzzer does not see.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

READERS = ("npz", "npy", "zip", "idx", "safetensors", "settings", "given pairs")
# What reads files in Python: these modules tell the fuzzer which branches were taken.
_INSTRUMENTED = ["transop", "zipfile", "tomllib", "numpy.lib", "ast"]
_LARGEST = 8192  # bytes of an input


def search(reader: str, n_runs: int, seed: int, report: Path) -> None:
    """Fuzz one reader in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        import fuzz
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, fuzz._ring)
    sys.addaudithook(fuzz._watch)
    scratch = Path(os.environ["TRANSOP_CACHE"])
    tally = fuzz.Tally()
    read, files = fuzz.good_files(scratch)[reader]
    seeds = scratch / "seeds"
    seeds.mkdir()
    for file in files:
        (seeds / file.name).write_bytes(file.read_bytes())
    copies = [scratch / f"case{file.suffix}" for file in files[:2]]
    n_done = 0

    def one_case(content: bytes) -> None:
        nonlocal n_done
        copy = copies[0 if content.startswith(b"PK") else -1]  # an archive is the first, if any
        copy.write_bytes(content)
        tally.run(reader, lambda: read(copy))
        n_done += 1
        if n_done % 100 == 0 or tally.failures:
            outcomes = dict(tally.outcomes[reader])
            found = {"outcomes": outcomes, "failures": tally.failures[:5]}
            report.write_text(json.dumps({**found, "slowest_seconds": tally.slowest}))

    options = [f"-runs={n_runs}", f"-seed={seed}", f"-max_len={_LARGEST}", "-timeout=0"]
    options.append(f"-artifact_prefix={scratch}/")  # else it leaves files in the current folder
    atheris.Setup([sys.argv[0], str(seeds), *options], one_case)
    atheris.Fuzz()


def search_all(readers: list[str], n_runs: int, seed: int) -> dict[str, Any]:
    """Fuzz one reader after the other, and collect what their processes have counted."""
    found: dict[str, Any] = {}
    for reader in readers:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            command = [sys.executable, __file__, "--runs", str(n_runs), "--seed", str(seed)]
            command += ["--only", reader, "--report", str(report)]
            done = subprocess.run(
                command,
                env={**os.environ, "TRANSOP_CACHE": scratch},
                capture_output=True,
                text=True,
            )
            if not report.exists():
                raise SystemExit(f"{reader}: {done.stderr[-2000:]}")
            found[reader] = json.loads(report.read_text())
        found[reader]["coverage"] = _coverage(done.stderr)
        print(reader, json.dumps(found[reader]), flush=True)
    return found


def _coverage(log: str) -> list[int]:
    """Read how many branches were known after the good files, and at the end."""
    lines = [line.split() for line in log.splitlines() if " cov: " in line]
    counts = [int(words[words.index("cov:") + 1]) for words in lines]
    return [counts[0], counts[-1]] if counts else []


def main() -> int:
    """Fuzz, print and store; the exit code is 1 if any case ended as it must not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20_000, help="cases per reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=READERS)
    parser.add_argument("--json", type=Path, help="where to write the result")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        search(options.only, options.runs, options.seed, options.report)
    readers = [options.only] if options.only else list(READERS)
    found = search_all(readers, options.runs, options.seed)
    total = Counter[str]()
    for result in found.values():
        total.update(result["outcomes"])
    report = {"seed": options.seed, "n_cases": total.total(), "outcomes": dict(total)}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**report, "by_reader": found}, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 0 if set(total) <= {"accepted", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
