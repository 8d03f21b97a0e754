"""Every relative link in the README and the docs leads to a file, and every anchor to a heading."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"^(```|~~~).*?^\1|^    .*?$|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(page):
    """Give a page without its code."""
    return CODE.sub("", page.read_text("utf-8"))


def anchors(page):
    """List what can follow ``#``: headings in lower case, spaces as hyphens, the rest left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    seen = {}
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        count = seen[slug] = seen.get(slug, -1) + 1
        yield slug if count == 0 else f"{slug}-{count}"


def broken_links(page):
    """List the links of a page that lead nowhere."""
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_missing_file_and_a_missing_heading_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# The *first* thing (`a`)\n\n# Twice\n\n# Twice\n")
    good = "[a](other.md#the-first-thing-a) [b](other.md#twice-1) [c](#here) [d](https://no.where)"
    page.write_text(f"# Here\n\n{good}\n\n`[e](code.md)`\n\n```\n[f](code.md)\n```\n")
    assert list(broken_links(page)) == []
    page.write_text("![p](none.png) [a](other.md#second) [b](#there)")
    assert list(broken_links(page)) == ["none.png", "other.md#second", "#there"]


def test_every_page_and_every_figure_is_in_the_table_of_contents():
    listed = re.findall(r"(?:file|root): (\S+)", (ROOT / "docs" / "_toc.yml").read_text("utf-8"))
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for page in PAGES
        if page.is_relative_to(ROOT / "docs")
    }
    pages = {page for page in pages if not page.startswith(("figures/", "measurements/"))}
    assert sorted(listed) == sorted({*pages, "figures/index"})


def test_the_reference_shows_every_public_name():
    import transop

    shown = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    named = set(re.findall(r"^\.\. auto(?:function|class):: (\w+)$", shown, re.M))
    assert set(transop.__all__) - {"__version__"} <= named
    index = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
    assert all(f"[`{name}`]" in index for name in set(transop.__all__) - {"__version__"})
