"""The code of every page for readers runs as it is printed, on small data in place of one's own."""

import re
import runpy
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from transop.data import DATASETS, DatasetMeta, ImageDataset, consecutive_splits
from transop.training import plan as planning

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUN_PAGE = runpy.run_path(str(ROOT / "benchmarks" / "pages.py"))["run_page"]

HOWTO = sorted((DOCS / "howto").glob("*.md"))
FIRST = DOCS / "tutorials" / "own-folder.md"
# They work on the folder and the run that the first tutorial makes.
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "index.md"]
NEEDS = {
    "hugging-face": "datasets",
    "hub": "huggingface_hub",
    "lightning": "lightning",
    "kornia": "kornia",
    "onnx": "onnxscript",
}


def run_quietly(page):
    commands = page.parent.name == "tutorials"
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries about themselves
        return RUN_PAGE(page, commands=commands)


def check_output(code, printed):
    """Compare what a page says its ``print`` calls give with what they gave."""
    expected = re.findall(r"print\(.*\)  # (.+)$", code, re.M)
    printed = printed.replace("torch.Size(", "").replace("[", "(").replace("]", ")")
    for words in (w.replace("[", "(").replace("]", ")") for w in expected if w[0] in "(0123456789"):
        assert words in printed


def few_digits(request):
    """Draw 300 bars, thirty of each class, in place of 5,000 digits."""
    images = np.zeros((300, 1, 16, 16), np.uint8)
    chance, labels = np.random.default_rng(0), np.arange(300) % 10
    for image, label in zip(images, labels, strict=True):
        width = chance.integers(1, 4)
        image[0, chance.integers(0, 4) :, label + 1 : label + 1 + width] = 255
    splits = consecutive_splits({"train": 240, "validation": 30, "test": 30})
    return ImageDataset(images, labels, splits, DatasetMeta("digits", "drawn"))


@pytest.fixture(scope="module")
def small_data():
    """Let there be few digits, and a machine so slow that hardly a step is planned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DATASETS, "digits", few_digits)
        patch.setattr(planning, "_seconds", lambda work, warm=True: 5.0)
        patch.setattr(planning._Planner, "_time_operators", lambda self, batch: 5.0)
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def desk(small_data, tmp_path_factory):
    """Go through the first tutorial; give the folder in which it worked."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_quietly(FIRST)
    settings = folder / "runs" / "photos" / "config.toml"
    text = settings.read_text()
    assert "distil_samples = 60000" in text
    settings.write_text(text.replace("distil_samples = 60000", "distil_samples = 1000"))
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Let a folder stand in for the Hugging Face hub."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    place = tmp_path / "hub"

    def upload_folder(repo_id, folder_path):
        shutil.copytree(folder_path, place / repo_id)

    monkeypatch.setattr(huggingface_hub, "create_repo", lambda name, **options: None)
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(place / name))


@pytest.mark.usefixtures("small_data", "hub", "as_users_run_it")
@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, full_run, tmp_path, monkeypatch, capsys):
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(full_run)
    monkeypatch.chdir(tmp_path)
    before = dict(DATASETS)
    code = run_quietly(page)
    for added in DATASETS.keys() - before.keys():
        del DATASETS[added]
    assert code
    check_output(code, capsys.readouterr().out)


def test_the_first_tutorial_leaves_a_run_pictures_and_copies(desk):
    assert {picture.name for picture in desk.glob("*.png")} == {"one-operator.png", "path.png"}
    assert len(list((desk / "photos").rglob("*.png"))) == 300
    assert len(list((desk / "augmented").rglob("*.png"))) == 900


@pytest.mark.usefixtures("small_data", "as_users_run_it")
@pytest.mark.parametrize(
    "page", [page for page in TUTORIALS if page != FIRST], ids=lambda page: page.stem
)
def test_the_code_of_a_tutorial_runs(page, desk, tmp_path, monkeypatch, capsys):
    for name in ("photos", "runs"):
        shutil.copytree(desk / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    try:
        check_output(run_quietly(page), capsys.readouterr().out)
    finally:  # what the page wrote and imported is not what another test means by that name
        for name in set(sys.modules) - before:
            if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]
    shown = set(re.findall(r"pictures/tutorials/(.+?\.png)", page.read_text("utf-8")))
    assert {picture.name for picture in tmp_path.glob("*.png")} == shown


def test_there_is_a_page_for_every_library_that_is_named():
    others = {"own-network", "torch-dataset", "scikit-learn", "gpu", "several-processes", "extend"}
    others.add("few-labels")
    assert {page.stem for page in HOWTO} == {*NEEDS, *others}
