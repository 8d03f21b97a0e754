from pathlib import Path

import pytest

from transop_paper.figures import FIGURES

PAGES = Path(__file__).parents[3] / "docs" / "figures"


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_page_under_its_title(name):
    page = (PAGES / f"{name}.md").read_text()
    assert page.startswith(f"# {FIGURES[name].about.title}\n")
    assert f"({name}.md)" in (PAGES / "index.md").read_text()


def test_no_page_outlives_its_figure():
    assert {page.stem for page in PAGES.glob("*.md")} == {*FIGURES, "index"}
