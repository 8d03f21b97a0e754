import json

from transop_app.cli import run
from transop_paper.bench import inference


def test_bench_inference_prints_json(capsys):
    assert run(["bench", "inference", "--scale", "quick", "--json", "--repeats", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    solvers = [entry["solver"] for entry in report["sizes"][0]["runs"]]
    assert solvers[0] == "gauss-newton"
    assert {"proximal", "proximal-nesterov", "subgradient", "conjugate-gradient"} <= set(solvers)


def test_bench_inference_prints_the_tables_of_the_docs(capsys, monkeypatch):
    monkeypatch.setattr(inference, "CONTENDERS", ())
    monkeypatch.setattr(inference, "QUICK_SIZES", [inference.Size(4, 3, 2)])
    monkeypatch.setattr(inference, "QUICK_SWEEP", [inference.SweepSize(6, 2, 2, n_blocks=3)])
    assert run(["bench", "inference", "--scale", "quick", "--repeats", "2", "--sweep"]) == 0
    out = capsys.readouterr().out
    assert "latent 4, 3 operators, 2 pairs" in out
    assert "6 in 3 blocks" in out
    assert "tolerance 1e-05" in out


def test_bench_inference_refuses_an_unknown_scale(capsys):
    assert run(["bench", "inference", "--scale", "huge"]) == 2
    assert "quick" in capsys.readouterr().err
