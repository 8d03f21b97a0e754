"""Kill a training run at random moments, resume it, and compare its end with an undisturbed run.

    python benchmarks/kill_and_resume.py --kills 20 --json docs/measurements/kill-and-resume.json

Every phase is trained on a few drawn bars, with a checkpoint after every step. An undisturbed run
shows which checkpoints there are and how long each step takes; the kills are dealt to all phases
alike, and each falls at a random moment of a random step of its phase. Moments in which a process
starts or resumes count as one more phase. A run that comes to its end must have left the same
model, byte for byte, and the same metrics as the run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from transop.artifacts import RunFolder
from transop.config import PHASES

SETTINGS = """
recipe = "bars"
[data]
source = "{data}"
[autoencoder]
network = "conv"
width = 4
latent_dimension = 4
batch_size = 32
epochs = {epochs}
[pairs]
strategy = "pixel"
[operators]
n_operators = 3
batch_size = 32
epochs = {epochs}
[fine_tuning]
batch_size = 32
network_steps = 2
operator_steps = 2
epochs = {epochs}
[classifier]
batch_size = 32
epochs = {epochs}
[coefficient_encoder]
batch_size = 32
hidden = [8]
distil_samples = 1000
distil = {distil}
epochs = {epochs}
[runtime]
device = "cpu"
checkpoint_seconds = 0
"""
# What the clock decides; everything else in the metrics must be equal.
_TIMED = ("time", "seconds", "images_per_second", "pairs_per_second", "points_per_second")


# Names of checkpoints, in the order of a run; the classifier's stand-in is a loop of its own.
_LOOPS = (*PHASES[:-1], "distillation", PHASES[-1])
_KILLS_PER_RUN = 3
_START = ("start", 0)  # what has been reached before there is any checkpoint

# The checkpoint after which to kill, and how many seconds after it.
Moment = tuple[tuple[str, int], float]
# The seconds from each checkpoint of an undisturbed run to the next.
Timeline = dict[tuple[str, int], float]


def main() -> int:
    """Run the harness and say how it went; the exit code is 1 if any run ended differently."""
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        report = run_harness(
            Path(scratch), options.kills, options.seed, options.epochs, distil=not options.quick
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    for kill in report["kills"]:
        print(f"{kill['aim']:>20}: {kill['where']}")
    print(f"{report['n_runs_compared']} runs compared; different: {report['different'] or 'none'}")
    return 1 if report["different"] else 0


def run_harness(
    scratch: Path, n_kills: int, seed: int, epochs: float, *, distil: bool = True
) -> dict[str, Any]:
    """Spend a number of kills on runs, and compare every run with an undisturbed one.

    Args:
        scratch: an empty folder.
        n_kills: how many processes to kill.
        seed: decides the moments.
        epochs: of every phase.
        distil: include the classifier's stand-in, whose large checkpoints take long to write.

    Returns:
        Where every kill fell, how many runs were compared, and what was different.
    """
    recipe = _write_recipe(scratch, epochs, distil)
    _attempt(recipe, scratch / "first", None, {})  # may have to compile, which takes longer
    timeline: Timeline = {}
    _attempt(recipe, scratch / "whole", None, timeline)
    expected = _outcome(scratch / "whole")
    kills: list[dict[str, Any]] = []
    different: list[str] = []
    n_runs = 0
    draw = random.Random(seed)
    while len(kills) < n_kills:
        for plan in _deal(timeline, n_kills - len(kills), draw):
            n_runs += 1
            folder = scratch / f"run-{n_runs}"
            for moment in (*plan, None):
                if _attempt(recipe, folder, moment, {}):
                    break  # the end came before its moment: that kill is dealt again
                assert moment is not None
                kills.append({"aim": moment[0][0], "where": _where(folder)})
            outcome = _outcome(folder)
            different += [f"{folder.name}: {k}" for k in expected if outcome[k] != expected[k]]
    return {
        "seed": seed,
        "undisturbed_seconds": round(sum(timeline.values()), 2),
        "n_kills": len(kills),
        "kills_by_aim": dict(Counter(kill["aim"] for kill in kills)),
        "n_while_writing": sum("while writing" in kill["where"] for kill in kills),
        "n_runs_compared": n_runs,
        "different": different,
        "kills": kills,
    }


def _deal(timeline: Timeline, n_kills: int, draw: random.Random) -> list[list[Moment]]:
    """Give every phase as many kills as the others, and every run a few, each in another phase."""
    phases = list(dict.fromkeys(phase for phase, _ in timeline))
    order = [phases.index(p) for _ in range(n_kills) for p in draw.sample(phases, len(phases))]
    order = order[:n_kills]
    plans = []
    while order:
        chosen = list(dict.fromkeys(order))[:_KILLS_PER_RUN]
        for phase in chosen:
            order.remove(phase)
        draws = [_draw_moment(timeline, phases[phase], draw) for phase in sorted(chosen)]
        if 0 in chosen:  # any process of a run may be killed while it starts
            draws.insert(draw.randrange(len(draws)), draws.pop(0))
        plans.append(draws)
    return plans


def _draw_moment(timeline: Timeline, phase: str, draw: random.Random) -> Moment:
    """Draw a checkpoint of a phase, and a time before the next one follows."""
    reached = draw.choice([place for place in timeline if place[0] == phase])
    return reached, draw.uniform(0, timeline[reached])


def _attempt(recipe: Path, folder: Path, moment: Moment | None, timeline: Timeline) -> bool:
    """Start or resume a run; say whether it came to its end, or was killed at its moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["transop_app.cli", "transop.training"])
    resume = ["--resume"] if folder.exists() else []
    arguments = ["train", str(recipe), "--out", str(folder), *resume, "--quiet"]
    process = context.Process(target=_train, args=(arguments,))
    process.start()
    place, since = _START, time.monotonic()
    while process.exitcode is None:
        process.join(0.001)
        if moment is not None and _is_at_least(place, moment[0]):
            process.join(moment[1])
            process.kill()
            process.join()
            return process.exitcode == 0
        now = _newest(folder)
        if now not in (place, _START):
            timeline[place], since = time.monotonic() - since, time.monotonic()
            place = now
    timeline[place] = time.monotonic() - since
    if process.exitcode != 0:
        raise SystemExit(f"training ended with exit code {process.exitcode}")
    return True


def _is_at_least(place: tuple[str, int], wanted: tuple[str, int]) -> bool:
    order = (_START[0], *_LOOPS)
    return (order.index(place[0]), place[1]) >= (order.index(wanted[0]), wanted[1])


def _newest(folder: Path) -> tuple[str, int]:
    """Give the phase and step of the newest checkpoint of a run."""
    names = [file.stem.rpartition("-") for file in (folder / "checkpoints").glob("[!.]*-*")]
    places = [(_LOOPS.index(phase), int(step)) for phase, _, step in names]
    return (_LOOPS[max(places)[0]], max(places)[1]) if places else _START


def _train(arguments: list[str]) -> None:
    from transop_app import cli

    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until the process ends
    sys.exit(cli.run(arguments))


def _where(folder: Path) -> str:
    """Describe how far a killed run had come."""
    run = RunFolder(folder)
    written = sorted(run.checkpoints.glob("*.safetensors"), key=lambda f: f.stat().st_mtime_ns)
    half = [file.name for file in folder.rglob(".*.tmp")]
    if written:
        where = written[-1].stem
    else:
        done = list(run.finished_phases())
        where = f"after {done[-1]}" if done else "before the first checkpoint"
    return where + (f", while writing {half[0]}" if half else "")


def _outcome(folder: Path) -> dict[str, Any]:
    """Collect what a finished run must have in common with every other."""
    run = RunFolder(folder)
    metrics = [{k: v for k, v in r.items() if k not in _TIMED} for r in run.read_metrics()]
    phases = {
        name: {k: v for k, v in facts.items() if k not in _TIMED}
        for name, facts in run.finished_phases().items()
    }
    assert tuple(phases) == PHASES, phases
    return {
        "model": (folder / "model.safetensors").read_bytes(),
        "description": (folder / "config.json").read_bytes(),
        "metrics": metrics,
        "phases": phases,
        "left": [*sorted(f.name for f in folder.rglob("*.tmp")), *run.checkpoints.glob("*")],
    }


def _write_recipe(scratch: Path, epochs: float, distil: bool) -> Path:
    """Draw 160 bars in two classes, and write the recipe that learns from them."""
    random_numbers = np.random.default_rng(0)
    labels = np.arange(160) % 2
    yy, xx = np.mgrid[:16, :16] - 7.5
    angles = random_numbers.uniform(0, 0.6, 160) + labels * np.pi / 2
    shifts = random_numbers.uniform(-3, 3, 160)
    distance = xx * np.sin(angles)[:, None, None] + yy * np.cos(angles)[:, None, None]
    images = 255 * np.exp(-((distance - shifts[:, None, None]) ** 2) / 4)
    np.savez(scratch / "bars.npz", images=images.astype(np.uint8), labels=labels)
    recipe = scratch / "bars.toml"
    recipe.write_text(
        SETTINGS.format(data=scratch / "bars.npz", epochs=epochs, distil=str(distil).lower())
    )
    return recipe


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=float, default=4.0, help="of every phase")
    parser.add_argument("--quick", action="store_true", help="leave out the stand-in classifier")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
