r"""Run the code of documentation pages, one after the other, and keep the pictures that it draws.

    python benchmarks/pages.py docs/tutorials/own-folder.md docs/tutorials/own-embeddings.md \
        docs/tutorials/training-loop.md docs/tutorials/what-it-ignores.md \
        --desk build/tutorials --pictures docs/pictures/tutorials

The pages of the tutorials build on each other: the first one trains for ten minutes. They work in
the folder DESK. Every picture that they write there is stored, small enough for a repository.
``tests/app/test_howto.py`` runs the same code on small data.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)


def blocks(page: Path, *, commands: bool = False) -> list[tuple[str, str]]:
    """List the code of a page in order: Python, and with ``commands`` also shell blocks."""
    found = _BLOCK.findall(page.read_text("utf-8"))
    return [(kind, code) for kind, code in found if kind == "python" or commands]


def run_page(page: Path, *, commands: bool = False) -> str:
    """Run the code of a page in the current folder, as one program, and give its Python part.

    Of shell blocks only calls of ``transop`` are run.
    """
    space: dict[str, Any] = {"__name__": page.stem.replace("-", "_")}
    code = blocks(page, commands=commands)
    for kind, text in code:
        if kind == "python":
            exec(compile(text, page.name, "exec"), space)
        else:
            _call(text)
    return "\n".join(text for kind, text in code if kind == "python")


def _call(text: str) -> None:
    """Call transop as the lines of a shell block do."""
    from transop_app.cli import run

    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["transop"] and run(words[1:]) != 0:
            raise RuntimeError(f"failed: {line}")


def main() -> int:
    """Run the pages in their desk and store the pictures that it holds afterwards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--desk", type=Path, required=True, help="the folder to work in")
    parser.add_argument("--pictures", type=Path, required=True, help="where pictures are stored")
    wanted = parser.parse_args()
    shrink = runpy.run_path(str(Path(__file__).with_name("docs_pictures.py")))["shrink"]
    pages, target = [page.resolve() for page in wanted.pages], wanted.pictures.resolve()
    wanted.desk.mkdir(parents=True, exist_ok=True)
    os.chdir(wanted.desk)
    for page in pages:
        print(f"running {page.name}")
        run_page(page, commands=True)
    target.mkdir(parents=True, exist_ok=True)
    for picture in sorted(Path().glob("*.png")):
        (target / picture.name).write_bytes(shrink(picture))
        print(target / picture.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
