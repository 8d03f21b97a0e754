"""The list of steps behind every number, and the runner that goes through it."""

import json
import sys

import pytest

from transop.errors import UserError
from transop_app import cli
from transop_paper import reproduce
from transop_paper.collecting import read_file
from transop_paper.numbers import TABLES
from transop_paper.reproduce import Reproduction
from transop_paper.steps import STEPS, Step


def step(name, *commands, **others):
    """Make a step whose commands leave WORK/name.json."""
    collect = others.pop("collect", read_file(f"{name}.json"))
    return Step(name, f"about {name}", commands, commands[:1], collect, **others)


def writes(name, text='{"a": 1}'):
    return f"python script.py {name} '{text}'"


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Run made-up steps in an empty folder with a script that writes files and a diary."""
    (tmp_path / "script.py").write_text(
        "import sys, pathlib\n"
        "name, text = sys.argv[1:]\n"
        "pathlib.Path('diary').open('a').write(name + ' ')\n"
        "if text == 'fail': sys.exit('it went wrong')\n"
        "if text == 'print': print('{\"printed\": 2}')\n"
        "else: (pathlib.Path('work') / f'{name}.json').write_text(text)\n"
    )

    def make(*given, names=(), **options):
        monkeypatch.setattr(reproduce, "STEPS", given)
        force = options.pop("force", False)
        said = []
        runner = Reproduction(
            root=tmp_path,
            measurements=tmp_path / "measurements",
            work=tmp_path / "work",
            say=said.append,
            **{"given": {}, **options},
        )
        try:
            runner.run(names, force=force)
        finally:
            make.said = said
        return (tmp_path / "diary").read_text().split()

    return make


def test_a_result_is_stored_with_how_it_was_made(make, tmp_path):
    make(step("one", writes("one")))
    found = json.loads((tmp_path / "measurements" / "one.json").read_text())
    assert found["a"] == 1
    made = found["made"]
    assert made["commands"] == [writes("one")]
    assert made["scale"] == "full"
    assert {"seconds", "commit", "cores", "torch_threads", "packages", "python"} <= set(made)


def test_what_was_made_by_the_same_commands_is_skipped_and_the_rest_is_not(make):
    assert make(step("one", writes("one")), step("two", writes("two"))) == ["one", "two"]
    assert make(step("one", writes("one")), step("two", writes("two"))) == ["one", "two"]
    changed = step("two", writes("two", '{"a": 2}'))
    assert make(step("one", writes("one")), changed) == ["one", "two", "two"]
    assert make(step("one", writes("one")), changed, force=True)[3:] == ["one", "two"]


def test_a_step_is_made_again_if_a_later_one_needs_runs_that_are_gone(make, tmp_path):
    first = step("one", writes("one"), leaves=("one.json",))
    assert make(first, step("two", writes("two"), after=("one",))) == ["one", "two"]
    (tmp_path / "work" / "one.json").unlink()
    assert make(first, step("two", writes("two"), after=("one",))) == ["one", "two"]
    changed = step("two", writes("two", '{"a": 2}'), after=("one",))
    assert make(first, changed) == ["one", "two", "one", "two"]


def test_a_measurement_without_a_record_is_made_again(make, tmp_path):
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "one.json").write_text('{"a": 0}')
    assert make(step("one", writes("one"))) == ["one"]


def test_only_a_step_and_what_it_needs_is_run(make):
    steps = (
        step("one", writes("one")),
        step("two", writes("two")),
        step("three", writes("three"), after=("one",)),
    )
    assert make(*steps, names=("three",)) == ["one", "three"]
    with pytest.raises(UserError, match="no step 'four'; choose from one, two, three"):
        make(*steps, names=("four",))


def test_a_failure_stops_what_needs_it_and_nothing_else(make, tmp_path):
    steps = (
        step("one", writes("one", "fail")),
        step("two", writes("two"), after=("one",)),
        step("three", writes("three")),
    )
    with pytest.raises(UserError, match="not made: one, two"):
        make(*steps)
    assert (tmp_path / "diary").read_text().split() == ["one", "three"]
    assert "it went wrong" in (tmp_path / "work" / "logs" / "one.log").read_text()
    assert any("ended with exit code 1" in line for line in make.said)
    assert not (tmp_path / "measurements" / "one.json").exists()


def test_what_a_command_prints_can_be_kept(make, tmp_path):
    make(step("one", "python script.py one print > {work}/one.json"))
    assert json.loads((tmp_path / "measurements" / "one.json").read_text())["printed"] == 2


def test_data_that_were_not_given_leave_a_step_out(make, tmp_path):
    steps = (step("one", "python script.py {celeba} x"), step("two", writes("two")))
    assert make(*steps) == ["two"]
    with pytest.raises(UserError, match="not made: one"):
        make(*steps, names=("one",))
    assert any("--give celeba=FOLDER" in line for line in make.said)


def test_the_total_is_written(make, tmp_path):
    make(step("one", writes("one")), step("two", writes("two")))
    total = json.loads((tmp_path / "measurements" / "reproduce.json").read_text())
    assert list(total["steps"]) == ["one", "two"]
    assert total["steps"]["one"]["is_current"]
    seconds = sum(facts["seconds"] for facts in total["steps"].values())
    assert total["hours"] == pytest.approx(seconds / 3600, abs=0.01)


def test_training_goes_on_with_a_run_that_was_begun(make, tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(
        reproduce.subprocess,
        "run",
        lambda words, **_: called.append(words) or type("Done", (), {"returncode": 1}),
    )
    train = step("one", "transop train demo --out {work}/one-0")
    monkeypatch.setattr(reproduce, "describe_environment", lambda **_: {})
    for _ in range(2):
        (tmp_path / "diary").write_text("")
        with pytest.raises(UserError):
            make(train)
        (tmp_path / "work" / "one-0").mkdir(exist_ok=True)
        (tmp_path / "work" / "one-0" / "config.toml").write_text("")
    assert called[0][:4] == [sys.executable, "-m", "transop", "train"]
    assert [words[-1] for words in called] == [str(tmp_path / "work" / "one-0"), "--resume"]


def test_the_steps_have_names_of_their_own_and_need_only_earlier_ones():
    names = [one.name for one in STEPS]
    assert len(set(names)) == len(names)
    for place, one in enumerate(STEPS):
        assert set(one.after) <= set(names[:place])
        assert one.commands
        assert {command.split()[0] for command in one.commands} <= {"transop", "python"}


def test_every_table_is_made_by_a_step():
    asked = []

    def read(name):
        asked.append(name)
        raise UserError("enough")

    for render in TABLES.values():
        with pytest.raises(UserError, match="enough"):
            render(read)
    assert set(asked) <= {"reproduce", *(one.name for one in STEPS)}


def test_the_command_lists_the_steps_and_wants_a_clone(capfd, tmp_path, monkeypatch):
    assert cli.run(["paper", "reproduce", "--list", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [row["step"] for row in listed] == [one.name for one in STEPS]
    assert cli.run(["paper", "reproduce", "--list", "--quick"]) == 0
    assert cli.run(["paper", "reproduce", "--give", "celeba=nowhere"]) == 2
    monkeypatch.chdir(tmp_path)
    assert cli.run(["paper", "reproduce", "--list"]) == 2
    assert "run this in a clone" in capfd.readouterr().err
