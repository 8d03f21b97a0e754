"""Put the figures of a trained run into the pages of docs/figures.

    transop paper all --run runs/mnist
    python benchmarks/docs_pictures.py runs/mnist mnist

copies every picture in runs/mnist/figures, small enough for a repository, to
docs/figures/pictures/mnist and lists all pictures a page has between its two marks, with the run
they come from and the headline numbers of their JSON files. What the pages say in words stays. The
gallery of the site, docs/gallery.md, gets one picture of every figure.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageStat

PAGES = Path(__file__).parents[1] / "docs" / "figures"
NEARLY_GREY = 15  # of 255: few colours do; photographs would turn mottled
LARGEST = 400_000  # bytes of one picture, unless asked for otherwise
BEGIN, END = "<!-- pictures -->", "<!-- end of pictures -->"
_ACROSS = 3  # pictures in a row of the gallery


def shrink(file: Path, largest: int = LARGEST) -> bytes:
    """Give a picture as a PNG of at most so many bytes: fewer colours, then fewer pixels."""
    picture = Image.open(file).convert("RGB")
    saturation = ImageStat.Stat(picture.convert("HSV").getchannel("S")).mean[0]
    palettes = (256, 64, 24) if saturation < NEARLY_GREY else (256,)
    while True:
        for colours in palettes:
            buffer = BytesIO()
            picture.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
            if buffer.tell() <= largest:
                return buffer.getvalue()
        size = [round(0.85 * side) for side in picture.size]
        picture = picture.resize(size, Image.Resampling.LANCZOS)


def origin(run: Path) -> dict[str, Any]:
    """Say which run a picture comes from."""
    settings = tomllib.loads((run / "config.toml").read_text())
    environment = json.loads((run / "environment.json").read_text())
    return {
        "recipe": settings.get("recipe", "unnamed"),
        "seed": environment.get("seed", 0),
        "commit": str(environment.get("commit") or "unknown")[:10],
    }


def headlines(file: Path) -> dict[str, Any]:
    """Pick the plain numbers of a figure."""
    facts = json.loads(file.read_text())["facts"] if file.exists() else {}
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in facts.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def collect(run: Path, name: str, largest: int = LARGEST) -> list[str]:
    """Copy the pictures of a run; give the figures that have one."""
    target = PAGES / "pictures" / name
    target.mkdir(parents=True, exist_ok=True)
    found = [page.stem for page in sorted(PAGES.glob("*.md"))]
    found = [figure for figure in found if (run / "figures" / f"{figure}.png").exists()]
    for figure in found:
        picture = shrink(run / "figures" / f"{figure}.png", largest)
        (target / f"{figure}.png").write_bytes(picture)
    numbers = {figure: headlines(run / "figures" / f"{figure}.json") for figure in found}
    kept = {"run": origin(run), "numbers": numbers}
    (target / "origin.json").write_text(json.dumps(kept, indent=1) + "\n")
    return found


def gallery(figure: str) -> str:
    """List all pictures of a figure, one data set after the other."""
    parts = []
    for file in sorted(PAGES.glob(f"pictures/*/{figure}.png")):
        kept = json.loads((file.parent / "origin.json").read_text())
        run, numbers = kept["run"], kept["numbers"].get(figure, {})
        words = f"`{run['recipe']}`, seed {run['seed']}, commit {run['commit']}."
        if numbers:
            listed = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in numbers.items())
            words += f" In its JSON file: {listed}."
        place = file.relative_to(PAGES).as_posix()
        parts.append(f"![{figure} on {file.parent.name}]({place})\n\n{words}\n")
    return "\n".join(parts) or "Not drawn from a trained run yet.\n"


def wall() -> str:
    """Show one picture of every figure that has one, digits first, in the order of the index."""
    listed = re.findall(
        r"\| \[(.+?)\]\((.+?)\.md\) \| .+? \| (.+?) \|", (PAGES / "index.md").read_text()
    )
    tiles = []
    for title, figure, place in listed:
        files = sorted(PAGES.glob(f"pictures/*/{figure}.png"), key=_digits_first)
        if files:
            page, picture = f"figures/{figure}.md", f"figures/{files[0].relative_to(PAGES)}"
            where = "not in the paper" if place == "no counterpart" else place
            tiles.append((f"[{title}]({page})", f"[![{title}]({picture})]({page})", where))
    tables = []
    for first in range(0, len(tiles), _ACROSS):
        row = tiles[first : first + _ACROSS]
        row += [("", "", "")] * (_ACROSS - len(row))
        heads, pictures, places = zip(*row, strict=True)
        lines = (heads, ("---",) * _ACROSS, pictures, places)
        tables.append("".join(f"| {' | '.join(cells)} |\n" for cells in lines))
    return "\n".join(tables)


def _digits_first(file: Path) -> tuple[bool, bool, bool, str]:
    name = file.parent.name
    return name != "mnist", not name.startswith("mnist"), name != "faces", name


def refresh(page: Path, pictures: str) -> bool:
    """Write pictures between the marks of a page; say whether it has marks."""
    head, begin, rest = page.read_text().partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        return False
    page.write_text(f"{head}{BEGIN}\n\n{pictures}\n{END}{tail}")
    return True


def main() -> int:
    """Copy one run's pictures, then write them into all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run folder with figures")
    parser.add_argument("name", help="of the data set, e.g. mnist")
    parser.add_argument("--largest", type=int, default=LARGEST, help="bytes of one picture")
    wanted = parser.parse_args()
    found = collect(wanted.run, wanted.name, wanted.largest)
    pages = [page for page in sorted(PAGES.glob("*.md")) if page.stem != "index"]
    shown = [page.stem for page in pages if refresh(page, gallery(page.stem))]
    if (site := PAGES.with_name("gallery.md")).exists():
        refresh(site, wall())
    print(f"{len(found)} pictures of {wanted.name}; pages: {', '.join(shown)}")
    missing = sorted(set(shown) - set(found))
    print(f"without a picture of {wanted.name}: {', '.join(missing) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
