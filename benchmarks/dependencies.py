"""List what transop depends on, under which licences, and check that everything is pinned.

    python benchmarks/dependencies.py            # print the tables of docs/dependencies.md
    python benchmarks/dependencies.py --write    # bring that page up to date
    python benchmarks/dependencies.py --osv all.zip   # look the pins up in osv.dev's database

Reads pyproject.toml, constraints.txt and the metadata of the packages that are installed; it asks
nothing of the network. The exit code is 1 if a package that `make` installs is not pinned to the
installed version, if a pin is left over, or if a pinned version has a known vulnerability.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dependencies.md"
_MARK = "<!-- written by benchmarks/dependencies.py -->\n"
_CORE = "always"
_DEVELOPERS = ("dev", "docs")  # extras that users of the package do not need
_OF_GPU_BUILDS = ("nvidia-", "cuda-", "triton")  # torch for GPUs brings and pins these itself


def groups() -> dict[str, list[Requirement]]:
    """Give the requirements of the core and of every extra, as pyproject.toml states them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {_CORE: project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(text) for text in texts] for name, texts in named.items()}


def direct(known: dict[str, list[Requirement]], name: str) -> list[Requirement]:
    """Give what an extra itself adds: no other extras of transop."""
    return [r for r in known[name] if canonicalize_name(r.name) != "transop"]


def brought_along(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Follow requirements of installed packages; give every package and its version."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(r, extra) for r in requirements for extra in ("", *r.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen or name.startswith(_OF_GPU_BUILDS):
            continue
        seen.add((name, extra))
        package = metadata.distribution(name)
        found[name] = package.version.partition("+")[0]
        for text in package.requires or []:
            further = Requirement(text)
            if further.marker is None or further.marker.evaluate({"extra": extra}):
                waiting += [(further, chosen) for chosen in ("", *further.extras)]
    return found


def licence(name: str) -> str:
    """Name a package's licence: the expression, else the classifiers, else the first line."""
    facts = metadata.metadata(name)
    expression = facts.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [c for c in facts.get_all("Classifier") or [] if c.startswith("License ::")]
    if classifiers:
        return ", ".join(c.rpartition(":: ")[2] for c in classifiers)
    stated = (facts.get("License") or "").strip().splitlines()
    return stated[0][:60] if stated and stated[0] != "UNKNOWN" else "**not stated**"


def constraints() -> list[Requirement]:
    """Read constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, str]:
    """Give the pins for this version of Python."""
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in constraints()
        if pin.marker is None or pin.marker.evaluate()
    }


def complaints(installed: dict[str, str], pinned: dict[str, str]) -> list[str]:
    """Say which packages are not pinned to what is installed, and which pins are left over."""
    wrong = [
        f"{name} {version} is installed, constraints.txt says {pinned.get(name, 'nothing')}"
        for name, version in sorted(installed.items())
        if pinned.get(name) != version
    ]
    return wrong + [
        f"{name} is pinned but not needed" for name in sorted(set(pinned) - {*installed})
    ]


def vulnerabilities(archive: Path, pinned: dict[str, str]) -> list[str]:
    """Look every pin up in a copy of osv.dev's database: one JSON file per vulnerability."""
    found = []
    with zipfile.ZipFile(archive) as entries:
        for entry in entries.namelist():
            record = json.loads(entries.read(entry))
            for affected in record.get("affected", []) if "withdrawn" not in record else []:
                name = canonicalize_name(affected.get("package", {}).get("name", ""))
                if pinned.get(name) in affected.get("versions", []):
                    what = record.get("summary") or record.get("details", "")[:100]
                    found.append(f"{name} {pinned[name]} is affected by {record['id']}: {what}")
    return sorted(set(found))


def tables() -> str:
    """Write the licences as Markdown: what each extra adds, then what these bring along."""
    known = groups()
    lines = ["| extra | package | licence |", "|---|---|---|"]
    stated = set()
    for extra in known:
        for requirement in direct(known, extra) if extra not in _DEVELOPERS else []:
            name = canonicalize_name(requirement.name)
            stated.add(name)
            lines.append(f"| {extra} | {name} | {licence(name)} |")
    needed = (r for extra in known if extra not in _DEVELOPERS for r in direct(known, extra))
    sometimes = {canonicalize_name(pin.name) for pin in constraints() if pin.marker is not None}
    others = sorted(set(brought_along(needed)) - stated - sometimes)
    lines += ["", "These bring along:", "", "| package | licence |", "|---|---|"]
    lines += [f"| {name} | {licence(name)} |" for name in others]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print or write the tables; fail if a pin is missing, wrong or left over."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--write", action="store_true", help="bring docs/dependencies.md up to date"
    )
    parser.add_argument("--osv", type=Path, help="osv.dev's database for PyPI, a zip archive")
    options = parser.parse_args()
    text = tables()
    if options.write:
        before, _, _ = PAGE.read_text("utf-8").partition(_MARK)
        PAGE.write_text(before + _MARK + text, "utf-8")
    else:
        print(text, end="")
    known = groups()
    everything = brought_along(r for extra in known for r in direct(known, extra))
    wrong = complaints(everything, pins())
    wrong += vulnerabilities(options.osv, pins()) if options.osv else []
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
