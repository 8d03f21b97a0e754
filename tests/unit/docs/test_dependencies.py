"""The page on dependencies is complete and true, and everything `make` installs is pinned."""

import json
import runpy
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "dependencies.py"))


@pytest.fixture(scope="module")
def installed():
    known = SCRIPT["groups"]()
    return SCRIPT["brought_along"](r for extra in known for r in SCRIPT["direct"](known, extra))


def test_every_package_that_make_installs_is_pinned_and_no_pin_is_left_over(installed):
    assert SCRIPT["complaints"](installed, SCRIPT["pins"]()) == []


def test_what_torch_for_gpus_brings_and_pins_itself_is_left_out():
    wanted = [Requirement(name) for name in ("packaging", "nvidia-cublas", "triton")]
    assert list(SCRIPT["brought_along"](wanted)) == ["packaging"]


def test_a_missing_a_wrong_and_an_idle_pin_are_noticed():
    found = SCRIPT["complaints"]({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "1", "d": "4"})
    assert found == [
        "b 2 is installed, constraints.txt says 1",
        "c 3 is installed, constraints.txt says nothing",
        "d is pinned but not needed",
    ]


def test_the_page_lists_every_runtime_package_with_its_licence():
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    assert page.endswith(SCRIPT["tables"]())


def test_a_pinned_version_with_a_known_vulnerability_is_named(tmp_path):
    def entry(name, versions, **facts):
        affected = [{"package": {"ecosystem": "PyPI", "name": name}, "versions": versions}]
        return json.dumps({"id": "X-1", "summary": "bad", "affected": affected, **facts})

    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("1.json", entry("Some.Package", ["1.0", "1.1"]))
        archive.writestr("2.json", entry("some-package", ["0.9"]))
        archive.writestr("3.json", entry("some-package", ["1.1"], id="X-3", withdrawn="2020"))
        archive.writestr("4.json", entry("another", ["1.1"]))
    found = SCRIPT["vulnerabilities"](tmp_path / "all.zip", {"some-package": "1.1"})
    assert found == ["some-package 1.1 is affected by X-1: bad"]
