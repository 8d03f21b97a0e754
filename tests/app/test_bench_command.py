import json

from transop_app.cli import run


def test_bench_inference_prints_json_and_draws_the_figure(tmp_path, capsys):
    plot = tmp_path / "times.png"
    code = run(
        ["bench", "inference", "--scale", "quick", "--json", "--repeats", "2", "--plot", str(plot)]
    )
    assert code == 0
    report = json.loads(capsys.readouterr().out)
    solvers = [entry["solver"] for entry in report["sizes"][0]["runs"]]
    assert solvers[0] == "gauss-newton"
    assert {"proximal", "proximal-nesterov", "subgradient", "conjugate-gradient"} <= set(solvers)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_bench_inference_refuses_an_unknown_scale_and_picture_format(tmp_path, capsys):
    assert run(["bench", "inference", "--scale", "huge"]) == 2
    assert "quick" in capsys.readouterr().err
    assert run(["bench", "inference", "--plot", str(tmp_path / "times.gif")]) == 2
    assert ".svg" in capsys.readouterr().err
