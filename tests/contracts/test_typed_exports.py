"""Every public name has its type for type checkers, although it is loaded on first use."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import transop

SNIPPET = """
import transop
reveal_type(transop.fit)
reveal_type(transop.ManifoldAutoencoder.from_pretrained("x").encode([0.5]))
reveal_type(transop.TransportAugment)
transop.fit(3, resume="yes")
"""


def test_type_checkers_and_users_see_the_same_names():
    tree = ast.parse(Path(transop.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == transop._PUBLIC_NAMES
    assert set(transop.__all__) == {"__version__", *imported}
    for name in imported:
        assert getattr(transop, name).__module__.startswith("transop.")


@pytest.mark.slow
def test_mypy_knows_the_types_of_public_names(tmp_path):
    if shutil.which("mypy", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("mypy is not installed")
    (tmp_path / "snippet.py").write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "snippet.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "def (source: Any, recipe:" in said
    assert "ManifoldAutoencoder" in said
    assert 'Revealed type is "torch._tensor.Tensor"' in said
    assert 'Argument "resume" to "fit" has incompatible type "str"' in said
    assert 'Revealed type is "Any"' not in said
