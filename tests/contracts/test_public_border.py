"""The application and the reproduction use only public names of the library."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
CLIENTS = [*(SOURCE / "transop_app").rglob("*.py"), *(SOURCE / "transop_paper").rglob("*.py")]

# Beside ``transop`` itself: its packages and modules that other packages may import from.
PUBLIC_MODULES = {
    "artifacts",
    "augment",
    "colours",
    "config",
    "data",
    "errors",
    "estimators",
    "evaluation",
    "extras",
    "files",
    "identity",
    "inference",
    "inputs",
    "learning",
    "model",
    "networks",
    "operators",
    "pairs",
    "plotting",
    "progress",
    "run",
    "semi_supervised",
    "sharing",
    "training",
}


def private_imports(tree):
    """Name every import of something in the library that is not public."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("transop."):
                    yield f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            package, _, module = node.module.partition(".")
            if package != "transop":
                continue
            for alias in node.names:
                if not is_public(module, alias.name):
                    yield f"from {node.module} import {alias.name}"


def is_public(module, name):
    if name == "__version__" and not module:
        return True
    if name.startswith("_") or (module and module not in PUBLIC_MODULES):
        return False
    loaded = import_module(f"transop.{module}" if module else "transop")
    defined = getattr(loaded, "__all__", None)
    if defined is None:  # a module without packages below it: what it defines itself
        value = getattr(loaded, name)
        return getattr(value, "__module__", loaded.__name__) in (loaded.__name__, "builtins")
    return name in defined


@pytest.mark.parametrize("path", sorted(CLIENTS), ids=str)
def test_clients_import_public_names_only(path):
    assert list(private_imports(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import transop", 0),
        ("from transop import fit, load_dataset", 0),
        ("from transop.training import train", 0),
        ("from transop.config import Settings", 0),
        ("from transop.config import Path", 1),
        ("from transop import training", 1),
        ("import transop.training", 1),
        ("from transop.training.fit import train", 1),
        ("from transop.training import logger", 1),
        ("from transop.tables import x", 1),
        ("def f():\n    from transop.model import _hidden", 1),
    ],
)
def test_the_check_sees_what_is_private(line, found):
    assert len(list(private_imports(ast.parse(line)))) == found
