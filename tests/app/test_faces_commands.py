"""Drawn faces from the command line."""

import json

from transop_app.cli import run


def test_faces_are_written_in_celebas_layout_and_read_back(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "faces"
    command = ["faces", str(folder), "-n", "12", "--image-size", "32", "--json"]
    assert run(command) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["n_images"] == 12
    assert facts["image_shape"] == [3, 32, 32]
    assert len(list((folder / "img_align_celeba").glob("*.jpg"))) == 12
    assert (folder / "list_attr_celeba.txt").read_text().startswith("12\n")
    assert (folder / "list_eval_partition.txt").exists()


def test_faces_are_written_only_into_a_new_folder(tmp_path, capsys):
    (tmp_path / "mine.txt").touch()
    assert run(["faces", str(tmp_path), "-n", "2"]) == 2
    assert "is not empty" in capsys.readouterr().err
