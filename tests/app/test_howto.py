"""The code of every how-to page runs as it is printed, on a small run in place of one's own."""

import re
import warnings
from pathlib import Path

import pytest
import torch

PAGES = sorted((Path(__file__).parents[2] / "docs" / "howto").glob("*.md"))
NEEDS = {"hugging-face": "datasets", "lightning": "lightning", "kornia": "kornia"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, full_run, tmp_path, monkeypatch, capsys):
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(full_run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    assert blocks
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries about themselves
        space = {"__name__": page.stem.replace("-", "_")}
        for block in blocks:
            exec(compile(block, page.name, "exec"), space)
    expected = re.findall(r"print\(.*\)  # (.+)$", "\n".join(blocks), re.M)
    printed = capsys.readouterr().out.replace("torch.Size(", "").replace("[", "(").replace("]", ")")
    for words in (w.replace("[", "(").replace("]", ")") for w in expected if w[0] in "(0123456789"):
        assert words in printed


def test_there_is_a_page_for_every_library_that_is_named():
    assert {page.stem for page in PAGES} == {*NEEDS, "own-network", "torch-dataset", "scikit-learn"}
