import os
import subprocess
import sys
from pathlib import Path

import pytest

import transop

PROGRAM = Path(__file__).with_name("compiled.py")


def run(check):
    """Run one check in a process of its own."""
    source = str(Path(transop.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, str(PROGRAM), check]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_compiled_it_draws_moves_that_can_be_replayed():
    run("draws")


@pytest.mark.slow
@pytest.mark.parametrize("check", ["guard", "same", "replay", "generator"])
def test_compiled_it_keeps_its_promises(check):
    run(check)


def test_importing_the_augmentation_does_not_load_the_compiler():
    source = str(Path(transop.__file__).parents[1])
    program = (
        "import sys, torch; before = 'torch._dynamo' in sys.modules; import transop.augment; "
        "sys.exit('torch._dynamo' in sys.modules and not before)"
    )
    environment = {**os.environ, "PYTHONPATH": source}
    assert (
        subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode
        == 0
    )
