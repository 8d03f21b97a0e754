"""Drawn faces from the command line, and what pairs cost."""

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


def test_pairs_are_timed_for_growing_numbers(capsys, monkeypatch):
    from transop.pairs import BACKBONES, FeatureExtractor

    def quick(image_size, weights, cache_dir):
        return FeatureExtractor(lambda images: images.flatten(1), 16, key="quick")

    monkeypatch.setitem(BACKBONES, "quick", quick)
    command = ["bench", "pairs", "--images", "40,80", "--image-size", "8", "--backbone", "quick"]
    assert run([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [cost["n_images"] for cost in report["costs"]] == [40, 80]
    assert report["growth"]["search"] is not None
    assert run(command) == 0
    assert "whole table" in capsys.readouterr().out
    assert run(["bench", "pairs", "--images", "many"]) == 2
    assert "whole numbers" in capsys.readouterr().err
