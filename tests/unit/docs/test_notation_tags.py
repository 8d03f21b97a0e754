"""Every equation tag used in the source is explained in docs/notation.md."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TAG = re.compile(r"(?<![\w)\]])\[([A-Z]{2,})\]")  # a tag, not an index such as SOLVERS[NAME]


def documented_tags():
    table = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `\[([A-Z]+)\]` \|", table, flags=re.MULTILINE))


def used_tags():
    return {
        (tag, str(path.relative_to(ROOT)))
        for path in (ROOT / "src").rglob("*.py")
        for tag in TAG.findall(path.read_text(encoding="utf-8"))
    }


def test_every_tag_in_the_source_is_listed_with_its_equation():
    missing = {(tag, path) for tag, path in used_tags() if tag not in documented_tags()}
    assert not missing


def test_the_source_does_use_tags():
    assert {"TRANSPORT", "KL"} <= {tag for tag, _ in used_tags()}
