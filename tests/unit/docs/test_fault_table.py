import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_the_fault_table_names_exists():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "faults.md").read_text()))
    files = (ROOT / "tests").rglob("test_*.py")
    defined = {
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    assert len(named) > 20
    assert named <= defined, named - defined
