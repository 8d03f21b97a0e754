"""A small slice of the stored attack; `benchmarks/attack.py` is the whole of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def attack(tmp_path, *options):
    report = tmp_path / "attack.json"
    command = [sys.executable, BENCHMARKS / "attack.py", *options, "--out", report]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert report.exists(), done.stderr[-3000:]
    return done.returncode, json.loads(report.read_text()), done.stdout


def test_no_damaged_or_made_up_input_ends_in_a_traceback_a_hang_or_running_code(tmp_path):
    kinds = ["data", "settings", "models", "http"]
    code, found, said = attack(tmp_path, "--kinds", *kinds, "--cases", "240", "--seed", "7")
    assert (code, found["fallen"]) == (0, 0), said
    assert found["tried"] == found["clean"] == 240
    assert set(found["outcomes"]) == {"used", "refused"}
    assert set(found["by_kind"]) == set(kinds)


@pytest.mark.slow
def test_no_input_of_any_kind_falls(tmp_path):
    code, found, said = attack(tmp_path, "--cases", "3000", "--seed", "11")
    assert (code, found["fallen"]) == (0, 0), said
    assert len(found["by_kind"]) == 6


def test_the_cage_notices_every_way_to_fall(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from attacks.probe import PROBES

    options = ["--kinds", "probe", "--cases", str(len(PROBES)), "--seconds", "3"]
    code, found, said = attack(tmp_path, *options)
    expected = {name: outcome for name, (_, outcome) in PROBES.items()}
    fallen = {case["case"]: case["outcome"] for case in found["fallen_cases"]}
    assert fallen == {k: v for k, v in expected.items() if v not in ("used", "refused")}
    assert (code, found["tried"], found["clean"]) == (1, len(PROBES), 2)
    assert "9 of 11 fell" in said
    assert "hung: probe, seed 0, number 5: wait" in said
