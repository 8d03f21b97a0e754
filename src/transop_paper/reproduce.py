"""Every number of the docs, from one list of steps.

A step is some commands and a JSON file. ``reproduce`` runs the commands of every step, collects
what they left and writes it to the folder of measurements, together with how it was made: commands,
commit, versions, hardware, seconds. A step whose file was made by the same commands is skipped, and
commands that train continue a run that was stopped, so that reproduction may be interrupted and
started again at any time. ``reproduce.json`` sums up how long everything took.

The steps themselves are in ``transop_paper.steps``.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transop.artifacts import describe_environment, read_json, write_json
from transop.errors import ArtifactError, UserError
from transop.files import make_folder
from transop_paper.numbers import TABLES
from transop_paper.steps import GIVEN, STEPS, Step

Say = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """Where and how steps are run."""

    root: Path  # a clone of the repository: its benchmarks are run
    measurements: Path  # gets the JSON files
    work: Path  # gets runs and logs
    given: Mapping[str, str]  # data the user has, by name
    is_quick: bool = False
    say: Say = lambda _: None

    def run(self, names: Sequence[str] = (), *, force: bool = False) -> None:
        """Run steps, or all of them, with those they need; what is done is skipped.

        A step that fails does not stop steps that do not need it.
        """
        failed: list[str] = []
        planned = self.planned(names)
        for step in planned:
            if blocked := [name for name in step.after if name in failed]:
                self.say(f"{step.name}: left out, it needs {', '.join(blocked)}")
                failed.append(step.name)
                continue
            try:
                wanted = force and (not names or step.name in names)
                self._make(step, force=wanted or self._is_missed(step, planned))
            except UserError as error:
                self.say(f"{step.name}: {error}")
                failed.append(step.name)
        self._sum_up()
        failed += [f"table {name}" for name in self._unreadable_tables()]
        if failed:
            raise UserError(f"these steps were not made: {', '.join(failed)}; the log says why")

    def planned(self, names: Sequence[str] = ()) -> list[Step]:
        """List the steps to run, in order."""
        known = {step.name: step for step in STEPS}
        wanted: set[str] = set()
        stack = list(names or (step.name for step in STEPS if self.possible(step)))
        while stack:
            name = stack.pop()
            if name not in known:
                raise UserError(f"there is no step '{name}'; choose from {', '.join(known)}")
            if name not in wanted:
                wanted.add(name)
                stack.extend(known[name].after)
        return [step for step in STEPS if step.name in wanted]

    def possible(self, step: Step) -> bool:
        """Say whether a step has a version of this scale and its data were given."""
        commands = " ".join(self.commands(step))
        missing = [f"{{{name}}}" for name in GIVEN if name not in self.given]
        return bool(commands) and not any(name in commands for name in missing)

    def commands(self, step: Step) -> tuple[str, ...]:
        """Give the commands of a step at this scale."""
        return step.quick if self.is_quick else step.commands

    def is_done(self, step: Step) -> bool:
        """Say whether the step's file was made by the same commands."""
        file = self.measurements / f"{step.name}.json"
        made = read_json(file).get("made", {}) if file.exists() else {}
        return bool(made.get("commands") == list(self.commands(step)))

    def _is_missed(self, step: Step, planned: Sequence[Step]) -> bool:
        """Say whether a step that is still to be made needs runs of this one that are gone."""
        needed = any(step.name in later.after and not self.is_done(later) for later in planned)
        return needed and not all((self.work / folder).exists() for folder in step.leaves)

    def _make(self, step: Step, *, force: bool) -> None:
        if not force and self.is_done(step):
            self.say(f"{step.name}: done before")
            return
        if not self.possible(step):
            raise UserError(
                "it needs data; give them with --give celeba=FOLDER, fruits=FILE or yale=FILE"
            )
        self.say(f"{step.name}: {step.about}")
        start = time.monotonic()
        for command in self.commands(step):
            self._execute(step, command)
        seconds = round(time.monotonic() - start, 1)
        made = {
            "scale": "quick" if self.is_quick else "full",
            "commands": list(self.commands(step)),
            "seconds": seconds,
            **describe_environment(seed=0),
        }
        del made["seed"]  # the commands name theirs
        result = {"made": made, **step.collect(self.work)}
        write_json(self.measurements / f"{step.name}.json", result)
        self.say(f"{step.name}: {seconds:.0f} s")

    def _execute(self, step: Step, command: str) -> None:
        """Run one command from the root of the clone; what it says goes to the step's log."""
        words = shlex.split(command)
        for name, place in {"work": str(self.work), **self.given}.items():
            words = [word.replace(f"{{{name}}}", place) for word in words]
        target = None
        if ">" in words:
            target = words[words.index(">") + 1]
            words = words[: words.index(">")]
        if words[:2] == ["transop", "train"] and _is_begun(words):
            words.append("--resume")
        program = {"transop": ["-m", "transop"], "python": []}[words[0]]
        log = self.work / "logs" / f"{step.name}.log"
        make_folder(log.parent)
        with log.open("a", encoding="utf-8") as said:
            said.write(f"$ {command}\n")
            said.flush()
            line = [sys.executable, *program, *words[1:]]
            done = subprocess.run(
                line, cwd=self.root, stdout=subprocess.PIPE if target else said, stderr=said
            )
        if done.returncode:
            raise UserError(f"'{command}' ended with exit code {done.returncode}; see {log}")
        if target:
            Path(target).write_bytes(done.stdout)

    def _unreadable_tables(self) -> list[str]:
        """Write every table whose measurements are there; name those that cannot be written."""
        names = []
        for name, write in TABLES.items():
            try:
                write(lambda file: read_json(self.measurements / f"{file}.json"))
            except ArtifactError:  # not measured
                continue
            except (KeyError, IndexError, TypeError, ValueError) as error:
                self.say(f"table {name}: {type(error).__name__} {error}")
                names.append(name)
        return names

    def _sum_up(self) -> None:
        """Write what was measured, at which commits and for how long."""
        steps = {}
        for step in STEPS:
            file = self.measurements / f"{step.name}.json"
            if file.exists() and (made := read_json(file).get("made")):
                facts = {key: made[key] for key in ("seconds", "commit", "scale")}
                steps[step.name] = {
                    "about": step.about,
                    **facts,
                    "other_commits": list(made.get("rows_of_another_commit", {})),
                    "is_current": self.is_done(step),
                }
        hours = sum(facts["seconds"] for facts in steps.values()) / 3600
        write_json(self.measurements / "reproduce.json", {"hours": round(hours, 2), "steps": steps})


def _is_begun(words: Sequence[str]) -> bool:
    return (Path(words[words.index("--out") + 1]) / "config.toml").exists()
