"""What a wheel must hold: every file of the three packages, and the examples."""

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

import transop
import transop_app
import transop_paper
from transop_app.examples import example_names

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("package", [transop, transop_app, transop_paper], ids=lambda p: p.__name__)
def test_every_folder_with_code_is_there(package):
    root = Path(package.__file__).parent
    assert list(root.rglob("*.py"))
    assert not list(root.rglob("*.so"))


def test_what_is_not_code_is_there():
    library, application = (Path(p.__file__).parent for p in (transop, transop_app))
    assert (library / "py.typed").exists()
    assert {"demo.toml", "mnist-cpu.toml"} <= {file.name for file in library.glob("recipes/*")}
    assert (application / "explorer" / "static" / "page.css").exists()
    assert example_names() == ["fashion-mnist", "mnist"]


def test_the_version_is_the_same_everywhere():
    assert importlib.metadata.version("transop") == transop.__version__
    citation = Path(__file__).parents[2] / "CITATION.cff"
    if citation.exists():  # in a clone
        assert f"version: {transop.__version__}\n" in citation.read_text()
        changes = (citation.parent / "CHANGELOG.md").read_text()
        assert re.search(rf"^## {re.escape(transop.__version__)}\b", changes, re.MULTILINE)


def test_the_commands_of_the_reproduction_are_found():
    found = importlib.metadata.entry_points(group="transop.commands")
    assert {entry.name for entry in found} == set(PROJECT["entry-points"]["transop.commands"])
    assert all(callable(entry.load()) for entry in found)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_explorer_serves_an_example(name, tmp_path):
    command = [sys.executable, "-m", "transop", "explore", "--example", name, "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TRANSOP_CACHE": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        assert f"transop explorer: {name}" in urllib.request.urlopen(address).read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
