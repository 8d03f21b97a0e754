"""The lines that `benchmarks/sabotage.py` breaks, and the tests that must notice, still exist."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SABOTAGES = runpy.run_path(str(ROOT / "benchmarks" / "sabotage.py"))["SABOTAGES"]


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.test)
def test_a_sabotage_finds_its_line_and_its_test(sabotage):
    assert sabotage.good in (ROOT / "src" / sabotage.file).read_text()
    tests = (file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert any(re.search(rf"^def {sabotage.test}\(", text, re.M) for text in tests)


def test_every_marked_row_of_the_fault_table_has_a_sabotage():
    text = (ROOT / "docs" / "faults.md").read_text()
    known = {sabotage.test for sabotage in SABOTAGES}
    for row in re.findall(r"^\| ([A-Z]\d+)&nbsp;● \|", text, re.M):
        (tests,) = re.findall(rf"^- {row}: (.*)$", text, re.M)
        assert known & set(re.findall(r"`(test_\w+)`", tests)), row
