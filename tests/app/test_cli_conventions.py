"""What every command shares: streams, exit codes, one line for whatever goes wrong."""

import errno
import logging
import os
import resource
import subprocess
import sys
import warnings

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from transop.errors import ArtifactError, SettingsError
from transop_app import cli
from transop_app.cli.terminal import Interrupted

ARGUMENT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@pytest.fixture
def run_body(monkeypatch, capfd):
    """Run a function as the command 'act'; give exit code, stdout and stderr."""

    def run(body, *arguments):
        def act(ctx: typer.Context) -> None:
            body(ctx.obj)

        monkeypatch.setitem(cli.COMMANDS, "act", act)
        code = cli.run(["act", *arguments])
        return code, *capfd.readouterr()

    return run


def raising(error):
    def body(terminal):
        raise error

    return body


def transop(*arguments, **options):
    command = [sys.executable, "-m", "transop", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_help_lists_every_command_without_importing_torch():
    code = (
        "import sys; from transop_app.cli import run; run(['--help']);"
        "heavy = {'torch', 'numba', 'pydantic', 'matplotlib', 'sklearn'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in cli.COMMANDS:
        assert f" {name} " in done.stdout


def test_help_takes_under_a_second_of_processor_time():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert transop("--help").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_version_is_data_on_stdout():
    done = transop("--version")
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "transop", "")


def test_no_arguments_show_the_help(capfd):
    assert cli.run([]) == 0
    assert "Usage" in capfd.readouterr().out


def test_a_user_mistake_is_one_line_and_exit_code_2(run_body):
    code, out, err = run_body(raising(SettingsError("'n' = 0: use at least [1]")))
    assert (code, out, err) == (2, "", "error: 'n' = 0: use at least [1]\n")


def test_debug_adds_the_traceback(run_body):
    code, _, err = run_body(raising(SettingsError("no")), "--debug")
    assert code == 2
    assert "Traceback" in err


def test_a_full_disk_is_one_line_and_exit_code_1(run_body):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/x")
    code, _, err = run_body(raising(error))
    assert code == 1
    assert err.count("\n") == 1
    assert "No space left on device 'runs/x'" in err


def test_a_full_disk_is_exit_code_1_in_a_rooms_own_words_too(run_body):
    def body(terminal):
        try:
            raise OSError(errno.ENOSPC, "full")
        except OSError:
            raise ArtifactError("cannot write to 'runs/x'") from None

    assert run_body(body) == (1, "", "error: cannot write to 'runs/x'\n")


def test_memory_running_out_is_one_line_and_exit_code_1(run_body):
    code, _, err = run_body(raising(MemoryError("8 GiB")))
    assert (code, err.count("\n")) == (1, 1)


def test_an_unexpected_error_is_called_a_bug(run_body):
    code, _, err = run_body(raising(KeyError("lost")))
    assert (code, err.count("\n")) == (70, 1)
    assert "KeyError: 'lost'" in err
    assert "bug" in err


def test_ctrl_c_ends_with_130(run_body):
    code, _, err = run_body(raising(KeyboardInterrupt()))
    assert (code, err) == (130, "\nstopped\n")


def test_ctrl_c_in_a_resumable_command_says_how_to_go_on(run_body):
    def body(terminal):
        with terminal.resumable("stopped; continue with --resume"):
            raise KeyboardInterrupt

    code, _, err = run_body(body)
    assert (code, err) == (130, "\nstopped; continue with --resume\n")


def test_interruption_reaches_the_user_even_with_quiet(run_body):
    code, _, err = run_body(raising(Interrupted("later")), "--quiet")
    assert (code, err) == (130, "\nlater\n")


def test_a_reader_that_goes_away_is_not_an_error_message():
    code = (
        "import sys; from transop_app import cli\n"
        "def act():\n"
        "    for i in range(100000): print(i)\n"
        "cli.COMMANDS['act'] = act\n"
        "sys.argv = ['transop', 'act']; cli.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1


def test_quiet_silences_notices_and_keeps_results(run_body):
    def body(terminal):
        terminal.notice("working")
        terminal.result("[42]")

    assert run_body(body) == (0, "[42]\n", "working\n")
    assert run_body(body, "--quiet") == (0, "[42]\n", "")


def test_library_news_needs_verbose_and_library_warnings_do_not(run_body):
    def body(terminal):
        logging.getLogger("transop.some.room").info("news")
        logging.getLogger("transop.some.room").warning("trouble [x]")

    assert run_body(body) == (0, "", "warning: trouble [x]\n")
    assert run_body(body, "--verbose") == (0, "", "news\nwarning: trouble [x]\n")
    assert run_body(body, "--quiet") == (0, "", "")


def test_only_our_own_python_warnings_reach_the_user(run_body):
    class Ours(UserWarning):
        __module__ = "transop.inference"

    def body(terminal):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = cli.terminal._show_warning
            warnings.warn("theirs", DeprecationWarning, stacklevel=1)
            warnings.warn("3 pairs did not converge", Ours, stacklevel=1)

    assert run_body(body) == (0, "", "warning: 3 pairs did not converge\n")


def test_progress_off_a_terminal_says_nothing_unless_verbose(run_body):
    def body(terminal):
        assert list(terminal.progress([1, 2, 3], "counting")) == [1, 2, 3]

    assert run_body(body) == (0, "", "")
    code, out, err = run_body(body, "--verbose")
    assert (code, out) == (0, "")
    assert err.startswith("counting: 3\ncounting: done in ")


def test_json_on_stdout_is_readable_by_a_program(run_body):
    code, out, _ = run_body(lambda terminal: terminal.result_json({"name": "[a]", "n": 1}))
    assert (code, out) == (0, '{\n  "name": "[a]",\n  "n": 1\n}\n')


@settings(max_examples=40, deadline=None)
@given(st.lists(ARGUMENT, max_size=6))
def test_no_arguments_whatever_cause_a_traceback(arguments):
    """Words a shell could pass, as options and commands, end in help, success or a mistake."""
    assert cli.run(["--quiet", *arguments]) in (0, 2)
