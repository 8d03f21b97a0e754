"""Checks every shape annotation of the mathematical packages while tests run."""

from pathlib import Path

import jaxtyping
import pytest

INFERENCE = Path(__file__).parents[1] / "src" / "transop" / "inference"


# Before any test module imports them, or they would be loaded unchecked. The compiled
# files stay out: numba cannot compile a function that something else has wrapped.
jaxtyping.install_import_hook(
    [
        "transop.operators",
        *(
            f"transop.inference.{path.stem}"
            for path in INFERENCE.glob("[a-z]*.py")
            if not path.stem.endswith("compiled")
        ),
    ],
    "beartype.beartype",
)


@pytest.fixture
def as_users_run_it():
    """Switch the shape checks off, so that our own error messages answer a mistake."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
