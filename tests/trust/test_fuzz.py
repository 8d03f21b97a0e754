"""A small slice of the stored fuzz run; `benchmarks/fuzz.py` is the whole of it."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"


def test_no_damaged_or_made_up_input_ends_in_a_traceback_a_hang_or_running_code(tmp_path):
    report = tmp_path / "fuzz.json"
    command = [sys.executable, SCRIPT, "--cases", "360", "--seed", "7", "--json", report]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(report.read_text())
    assert found["n_cases"] >= 300
    assert set(found["outcomes"]) == {"accepted", "refused"}
    assert len(found["by_reader"]) == 13
