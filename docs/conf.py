"""How Sphinx builds the site from the Markdown files beside this one: ``make docs``."""

import os
import re
from typing import Any

os.environ.setdefault("TRANSOP_CACHE", "unused")  # nothing here loads data

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
suppress_warnings: list[str] = []

# Pages and their order are in _toc.yml, so that the Markdown files need no directive for it.
external_toc_path = "_toc.yml"
exclude_patterns = ["measurements/*.md"]

myst_heading_anchors = 4  # links to headings work as on a code host
myst_enable_extensions = ["strikethrough"]

html_theme = "furo"
html_title = f"transop {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_google_docstring, napoleon_numpy_docstring = True, False
default_role = "code"

# Files at the root of the repository are pages of the site too, under these names.
_ROOT_PAGES = {
    name: f"/project/{name.lower()}" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")
}


def _link_root_pages(app: Any, page: str, source: list[str]) -> None:
    """Let links to files at the root lead to their pages."""
    for name, place in _ROOT_PAGES.items():
        source[0] = re.sub(rf"\]\((\.\./)+{name}\.md", f"]({place}.md", source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _link_root_pages)
