"""``benchmarks/explorer.py`` at its smallest: it must not rot."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "explorer.py"


@pytest.mark.browser
def test_visitors_meet_no_error_and_every_kind_of_action_is_measured(full_run):
    options = ["--users", "4", "--seconds", "8", "--moves", "5"]
    done = subprocess.run(
        [sys.executable, SCRIPT, str(full_run), *options],
        capture_output=True,
        text=True,
        check=False,  # a busy machine may miss the bars
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["first_errors"] == []
    assert found["slider"]["n"] == 5
    assert "slider" in found["actions"]
    assert done.returncode == bool(found["missed"])
