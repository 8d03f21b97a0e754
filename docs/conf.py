"""How Sphinx builds the site from the Markdown files beside this one: ``make docs``."""

import re
from pathlib import Path
from typing import Any

from transop import __version__

project, author = "transop", "The transop developers"
project_copyright = author
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx_external_toc",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]

# Pages and their order are in _toc.yml, so that the Markdown files need no directive for it.
external_toc_path = "_toc.yml"
exclude_patterns = ["measurements/*.md"]

myst_heading_anchors = 4  # links to headings work as on a code host

html_theme = "furo"
html_title = f"transop {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
toc_object_entries_show_parents = "hide"
highlight_language = "none"  # of code that does not say what it is
html_show_sphinx = html_copy_source = False

autoclass_content = "both"  # arguments are described where they are, often at __init__
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
default_role = "code"
nitpick_ignore_regex = [("py:(class|exc)", ".*")]  # types of other libraries have no page here

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = ("CHANGELOG", "CONTRIBUTING", "SECURITY")  # shown as project/changelog and so on
EQUATION = re.compile(r"\s*\[[A-Z]+\]  ")
LITERAL = re.compile(r"(``.*?``|`.*?`)")
UNDIVIDED = re.compile(r"\d ± \d|\(-?[\d.]+ to -?[\d.]+\)")  # no line ends within these


def read_page(app: Any, page: str, source: list[str]) -> None:
    """Show files at the root of the repository as pages, and let links to them lead there."""
    name = page.removeprefix("project/").upper()
    if name in ROOT_PAGES:
        source[0] = (ROOT / f"{name}.md").read_text("utf-8").replace("](docs/", "](/")
    source[0] = re.sub(
        rf"\]\((?:\.\./)*({'|'.join(ROOT_PAGES)})\.md",
        lambda link: f"](/project/{link[1].lower()}.md",
        source[0],
    )
    source[0] = UNDIVIDED.sub(lambda number: number[0].replace(" ", "\u00a0"), source[0])


def read_docstring(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Take a docstring as the plain text that it is: no markup but backticks; equations as code."""
    shown: list[str] = []
    equation = False
    for line in lines:
        begins = EQUATION.match(line) is not None
        equation = begins or (equation and bool(line.strip()))
        if begins:
            shown += ["::", ""]
        shown.append(f"    {line}" if equation else _escape(line))
    lines[:] = shown


def _escape(line: str) -> str:
    """Keep Sphinx from reading |z|, *b and name_ as markup."""
    argument, text = re.match(r"(\s*\**\w+:(?= |$))?(.*)", line).groups("")  # type: ignore[union-attr]
    parts = LITERAL.split(text)
    parts[::2] = [re.sub(r"([|*\\]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return argument + "".join(parts)


def setup(app: Any) -> None:
    """Connect the functions above; Sphinx calls this."""
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring, priority=400)  # before napoleon
