"""Checks every shape annotation of the mathematical rooms while tests run."""

import jaxtyping
import pytest

# Before any test module imports the rooms, or they would be loaded unchecked.
jaxtyping.install_import_hook(["transop.operators", "transop.inference"], "beartype.beartype")


@pytest.fixture
def as_users_run_it():
    """Switch the shape checks off, so that our own error messages answer a mistake."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
