"""The script that puts a run's figures into the pages."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "docs_pictures.py"
PAGES = Path(__file__).parents[3] / "docs" / "figures"


@pytest.fixture
def run(tmp_path):
    figures = tmp_path / "run" / "figures"
    figures.mkdir(parents=True)
    (figures.parent / "config.toml").write_text('recipe = "mnist-cpu"\n')
    facts = {"seed": 3, "commit": "0123456789abcdef"}
    (figures.parent / "environment.json").write_text(json.dumps(facts))
    noise = np.random.default_rng(0).integers(0, 256, (700, 900, 3), np.uint8)
    Image.fromarray(noise).save(figures / "magnitudes.png")
    (figures / "magnitudes.json").write_text('{"facts": {"n_living": 9, "names": ["a"]}}')
    return figures.parent


def test_pictures_are_shrunk_and_listed_with_their_origin(run, tmp_path, monkeypatch, capsys):
    page = tmp_path / "pages" / "magnitudes.md"
    page.parent.mkdir()
    page.write_text("# Words\n\n<!-- pictures -->\nold\n<!-- end of pictures -->\n\nMore words\n")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(run), "mnist"])
    script = runpy.run_path(str(SCRIPT))
    script["main"].__globals__["PAGES"] = page.parent
    assert script["main"]() == 0
    text = page.read_text()
    assert text.startswith("# Words")
    assert text.endswith("More words\n")
    assert "old" not in text
    assert "(pictures/mnist/magnitudes.png)" in text
    assert "`mnist-cpu`, seed 3, commit 0123456789. In its JSON file: n living 9." in text
    assert (page.parent / "pictures/mnist/magnitudes.png").stat().st_size <= script["LARGEST"]
    assert "1 pictures of mnist" in capsys.readouterr().out


def test_the_gallery_shows_every_figure_that_has_a_picture():
    script = runpy.run_path(str(SCRIPT))
    shown = script["wall"]()
    drawn = {file.stem for file in PAGES.glob("pictures/*/*.png")}
    assert {name for name in drawn if f"(figures/{name}.md)" in shown} == drawn
    text = (PAGES.parent / "gallery.md").read_text()
    assert shown in text, "write it anew with: make docs-pictures"


def test_every_page_has_a_place_for_pictures():
    pages = [page for page in PAGES.glob("*.md") if page.stem != "index"]
    assert [p.stem for p in pages if p.read_text().count("pictures -->") != 2] == []


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_every_picture_a_page_shows_is_there(page):
    parts = page.read_text().split("](")[1:]
    shown = [part.split(")")[0] for part in parts if ".png)" in part]
    assert [place for place in shown if not (PAGES / place).exists()] == []
