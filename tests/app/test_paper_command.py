"""``transop paper`` and ``transop report`` from the command line."""

import json
import shutil

import pytest

from transop.model import ManifoldAutoencoder
from transop_app import cli
from transop_paper.figures import FIGURES
from transop_paper.figures.quick import train_quick_run

TINY = (
    "data.limit=200",
    "autoencoder.width=4",
    "autoencoder.epochs=1",
    "autoencoder.latent_dimension=4",
    "operators.epochs=1",
    "operators.n_operators=3",
    "pairs.strategy=pixel",
    "fine_tuning.epochs=0",
    "classifier.epochs=1",
    "coefficient_encoder.epochs=1",
    "coefficient_encoder.distil_samples=1000",
    "runtime.device=cpu",
)


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """A run on 200 digits, as the quick one but much smaller."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSOP_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("transop_paper.figures.quick._OVERRIDES", TINY)
        train_quick_run(folder)
    return folder


def run_command(capfd, *arguments):
    code = cli.run(list(arguments))
    return code, *capfd.readouterr()


def test_without_a_name_the_figures_are_listed(capfd):
    code, out, _ = run_command(capfd, "paper")
    assert code == 0
    assert all(name in out for name in FIGURES)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("paper", "nonsense"), "figure 'nonsense' does not exist"),
        (("paper", "magnitudes", "--scale", "huge"), "--scale huge is unknown"),
        (("paper", "magnitudes", "--run", "/nowhere"), "is not a run folder"),
        (("report", "/nowhere"), "is not a run folder"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(capfd, arguments, complaint):
    code, out, err = run_command(capfd, *arguments)
    assert code == 2
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1


def test_a_figure_is_computed_drawn_and_drawn_again(tiny_run, capfd):
    call = ("paper", "magnitudes", "--run", str(tiny_run), "--scale", "quick")
    code, out, _ = run_command(capfd, *call, "--json")
    assert code == 0
    (paths,) = json.loads(out).values()
    assert {path.rsplit(".", 1)[1] for path in paths} == {"npz", "json", "png", "svg"}
    picture = tiny_run / "figures" / "magnitudes.png"
    picture.unlink()
    code, out, _ = run_command(capfd, *call, "--redraw")
    assert code == 0
    assert out.strip() == str(picture)
    assert picture.exists()


def test_companions_are_trained_beside_the_run_once(tiny_run, capfd):
    call = ("paper", "path-strips", "--run", str(tiny_run), "--scale", "quick")
    assert run_command(capfd, *call)[0] == 0
    stamps = {p: p.stat().st_mtime_ns for p in tiny_run.glob("companions/*/model.safetensors")}
    assert {p.parent.name for p in stamps} == {"ae", "cae", "beta-vae"}
    assert run_command(capfd, *call)[0] == 0
    assert all(p.stat().st_mtime_ns == stamp for p, stamp in stamps.items())


def test_companions_may_live_elsewhere(tiny_run, capfd, tmp_path):
    call = ("paper", "path-strips", "--run", str(tiny_run), "--scale", "quick")
    assert run_command(capfd, *call)[0] == 0  # its companions are there now
    shutil.copytree(tiny_run, tmp_path / "alone", ignore=shutil.ignore_patterns("companions"))
    options = [f"--companion={n}={tiny_run}/companions/{n}" for n in ("ae", "cae", "beta-vae")]
    call = ("paper", "path-strips", "--run", str(tmp_path / "alone"), "--scale", "quick")
    assert run_command(capfd, *call, *options)[0] == 0
    assert not (tmp_path / "alone" / "companions").exists()


@pytest.mark.parametrize(
    ("companion", "complaint"),
    [("nobody=here", "companion 'nobody' is unknown"), ("ae", "not of the form NAME=RUN")],
)
def test_a_companion_must_have_a_known_name_and_a_run(tiny_run, capfd, companion, complaint):
    call = ("paper", "magnitudes", "--run", str(tiny_run), "--companion", companion)
    code, _, err = run_command(capfd, *call)
    assert code == 2
    assert complaint in err


def test_a_figure_says_which_phase_it_needs(tiny_run, capfd, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(tiny_run, bare, ignore=shutil.ignore_patterns("companions", "figures"))
    model = ManifoldAutoencoder.from_pretrained(bare)
    model.phases = ("autoencoder", "operators")
    model.save_pretrained(bare)
    code, _, err = run_command(capfd, "paper", "embedding", "--run", str(bare))
    assert code == 2
    assert "embedding needs the phase 'coefficient_encoder'" in err


def test_a_report_is_written_and_named(tiny_run, capfd):
    code, out, _ = run_command(capfd, "report", str(tiny_run))
    assert code == 0
    assert out.strip() == str(tiny_run / "report.html")
    assert "What was trained" in (tiny_run / "report.html").read_text()


@pytest.mark.slow
def test_every_figure_of_the_quick_run_is_made(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run_command(capfd, "paper", "all", "--scale", "quick")
    assert code == 0
    possible = [name for name, figure in FIGURES.items() if set(figure.columns) <= {"labels"}]
    assert len(out.splitlines()) == len(possible)
