"""``transop train`` and ``transop demo`` on the smallest real runs."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transop.artifacts import RunFolder
from transop.config import PHASES, load_settings
from transop_app import cli
from transop_app.cli.showcase import FIGURES

TINY = [
    "data.limit=64",
    "autoencoder.width=2",
    "autoencoder.latent_dimension=4",
    "autoencoder.epochs=1",
    "autoencoder.batch_size=8",
    "operators.n_operators=3",
    "operators.epochs=1",
    "pairs.strategy=pixel",
    "fine_tuning.epochs=0.5",
    "classifier.epochs=0.5",
    "coefficient_encoder.epochs=0.5",
    "coefficient_encoder.distil=false",
    "coefficient_encoder.hidden=[8]",
]
LATER_PHASES = ("operators", "fine_tuning", "classifier", "coefficient_encoder")
FIRST_PHASE_ONLY = [*TINY, *(f"{phase}.epochs=0" for phase in LATER_PHASES)]
TINY_OPTIONS = [word for change in TINY for word in ("--set", change)]


@pytest.fixture(scope="module")
def tiny_recipe(tmp_path_factory):
    file = tmp_path_factory.mktemp("recipes") / "tiny.toml"
    file.write_text(load_settings("demo", [*FIRST_PHASE_ONLY, "recipe=tiny"]).to_toml())
    return str(file)


@pytest.fixture(scope="module")
def tiny_run(tiny_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert cli.run(["train", tiny_recipe, "--out", str(folder), "--quiet"]) == 0
    return folder


def mistake(capfd, *arguments):
    """Run a command that must be refused; give the line that says why."""
    assert cli.run(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_training_leaves_a_run_folder_and_a_summary(tiny_run, tiny_recipe, capfd):
    arguments = ["train", tiny_recipe, "--out", str(tiny_run), "--resume", "--json"]
    assert cli.run(arguments) == 0
    summary = json.loads(capfd.readouterr().out)
    assert summary["run"] == str(tiny_run)
    assert list(summary["phases"]) == ["autoencoder"]
    assert summary["phases"]["autoencoder"]["seconds"] > 0
    assert (tiny_run / "model.safetensors").exists()


def test_an_existing_run_is_not_overwritten(tiny_run, tiny_recipe, capfd):
    line = mistake(capfd, "train", tiny_recipe, "--out", str(tiny_run))
    assert "--resume" in line
    assert "--force" in line


def test_force_keeps_the_earlier_run_under_another_name(tiny_recipe, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.toml").write_text("recipe = 'old'\n")
    (folder / "metrics.jsonl").touch()
    assert cli.run(["train", tiny_recipe, "--out", str(folder), "--force", "--quiet"]) == 0
    assert (tmp_path / "run.earlier-1" / "config.toml").read_text() == "recipe = 'old'\n"
    assert load_settings(folder / "config.toml").recipe == "tiny"


def test_resuming_with_another_setting_names_it(tiny_run, tiny_recipe, capfd):
    options = ("--out", str(tiny_run), "--resume", "--set", "autoencoder.width=3")
    line = mistake(capfd, "train", tiny_recipe, *options)
    assert "autoencoder.width = 3" in line
    assert "started with 2" in line


def test_resuming_another_recipe_is_refused(tiny_run, capfd):
    line = mistake(capfd, "train", "mnist", "--out", str(tiny_run), "--resume")
    assert "recipe 'tiny', not 'mnist'" in line


def test_resuming_takes_up_settings_that_are_not_repeated(tmp_path, tiny_recipe):
    options = ["--out", str(tmp_path / "run"), "--quiet"]
    assert cli.run(["train", tiny_recipe, *options, "--set", "autoencoder.epochs=0.5"]) == 0
    assert cli.run(["train", tiny_recipe, *options, "--resume", "--device", "cpu"]) == 0
    assert RunFolder(tmp_path / "run").finished_phases()


def test_a_file_or_a_foreign_folder_as_out_is_refused(tmp_path, tiny_recipe, capfd):
    (tmp_path / "thesis.tex").write_text("precious")
    line = mistake(capfd, "train", tiny_recipe, "--out", str(tmp_path))
    assert "not a run" in line
    line = mistake(capfd, "train", tiny_recipe, "--out", str(tmp_path / "thesis.tex"))
    assert "is a file" in line


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--device", "abacus"], "abacus"),
        (["--seed", "-1"], "runtime.seed"),
        (["--seed", "one"], "--seed"),
        (["--devices", "0"], "runtime.devices"),
        (["--set", "autoencoder.epoch=1"], "did you mean 'epochs'"),
        (["--set", "data.source=no-such-set"], "no-such-set"),
    ],
)
def test_a_wrong_option_never_starts_a_run(options, part, tiny_recipe, tmp_path, capfd):
    line = mistake(capfd, "train", tiny_recipe, "--out", str(tmp_path / "run"), *options)
    assert part in line


def test_a_corrected_call_may_use_the_folder_of_the_refused_one(tiny_recipe, tmp_path, capfd):
    arguments = ["train", tiny_recipe, "--out", str(tmp_path / "run")]
    mistake(capfd, *arguments, "--set", "data.source=no-such-set")
    assert cli.run([*arguments, "--quiet"]) == 0


def test_settings_can_be_shown_and_used_as_a_recipe(tmp_path, capfd):
    assert cli.run(["train", "mnist", "--set", "autoencoder.epochs=2", "--show-settings"]) == 0
    (tmp_path / "own.toml").write_text(capfd.readouterr().out)
    assert load_settings(tmp_path / "own.toml").autoencoder.epochs == 2


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30))
def test_no_text_after_set_causes_a_traceback(text):
    assert cli.run(["--quiet", "train", "demo", "--show-settings", "--set", text]) in (0, 2)


def test_ctrl_c_on_a_terminal_leaves_a_run_that_resume_finishes(tiny_recipe, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "transop", "train", tiny_recipe, "--out", str(folder)]
    long = ["--set", "autoencoder.epochs=30"]
    leader, follower = os.openpty()
    process = subprocess.Popen([*command, *long], stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = _read_until(leader, b"images/s", process)
    process.send_signal(signal.SIGINT)
    shown += _read_rest(leader)
    assert process.wait(60) == 130
    assert process.stdout is not None
    assert process.stdout.read() == b""
    process.stdout.close()
    assert "autoencoder" in shown
    assert f"--out {folder} --resume" in shown.replace("\r\n", "")
    assert "Traceback" not in shown
    assert list((folder / "checkpoints").iterdir())
    assert cli.run([*command[3:], "--resume", "--quiet"]) == 0
    assert "autoencoder" in RunFolder(folder).finished_phases()


def _read_until(leader, mark, process):
    """Collect what a program draws until the mark appears; a watchdog ends a silent one."""
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    shown = b""
    while mark not in shown:
        shown += os.read(leader, 4096)
    watchdog.cancel()
    return shown.decode(errors="replace")


def _read_rest(leader):
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # how Linux says that the other end is closed
            part = b""
        if not part:
            os.close(leader)
            return shown.decode(errors="replace")
        shown += part


def test_the_demo_draws_and_sums_up_and_is_quick_the_second_time(tmp_path, capfd):
    arguments = ["demo", "--out", str(tmp_path / "demo"), "--json", *TINY_OPTIONS]
    assert cli.run(arguments) == 0
    first = capfd.readouterr()
    assert "picture: " in first.err
    assert f"all of it on one page: {tmp_path / 'demo' / 'report.html'}" in first.err
    assert (tmp_path / "demo" / "report.html").exists()
    pictures = {file.name for file in (tmp_path / "demo" / "figures").iterdir()}
    assert {f"{name}.png" for name in FIGURES} <= pictures
    assert cli.run(arguments) == 0
    summary = json.loads(capfd.readouterr().out)
    assert list(summary["phases"]) == list(PHASES)
    assert summary == json.loads(first.out)


def test_the_demo_refuses_to_overwrite_a_different_run(tiny_run, capfd):
    assert "--force" in mistake(capfd, "demo", "--out", str(tiny_run))


def test_a_baseline_is_trained_and_continued_by_its_own_command(tiny_recipe, tmp_path, capfd):
    command = ["baseline", "cae", tiny_recipe, "--out", str(tmp_path / "run"), "--json"]
    assert cli.run(command) == 0
    summary = json.loads(capfd.readouterr().out)
    assert set(summary["phases"]) == {"autoencoder"}
    assert cli.run([*command, "--resume"]) == 0
    capfd.readouterr()
    assert "transop baseline" in mistake(capfd, "train", tiny_recipe, *command[3:5], "--resume")
    assert "transop baseline" in mistake(capfd, "report", command[4])
    assert "magic" in mistake(capfd, "baseline", "magic", *command[2:])


def test_a_factory_in_the_current_folder_is_found(tiny_recipe, tmp_path, monkeypatch, capfd):
    lines = [
        "from torch import nn",
        "def make():",
        "    return nn.Sequential(nn.Flatten(), nn.Linear(784, 4))",
    ]
    (tmp_path / "networks_of_mine.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    off = ["--set", "autoencoder.factory=networks_of_mine:make", "--quiet"]
    assert cli.run(["train", tiny_recipe, "--out", str(tmp_path / "run"), *off]) == 0
    assert "autoencoder" in RunFolder(tmp_path / "run").finished_phases()
