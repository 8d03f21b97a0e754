"""``transop explore`` as a user calls it."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from transop.errors import UserError
from transop_app import cli
from transop_app.explorer import ExploredRun
from transop_app.explorer.server import is_loopback, serving


def test_a_run_that_is_not_there_is_a_user_mistake(tmp_path, capfd):
    assert cli.run(["explore", str(tmp_path / "none"), "--no-browser"]) == 2
    assert "is not a run folder" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_only_loopback_counts_as_private(host, expected):
    assert is_loopback(host) == expected


def test_the_page_starts_without_what_only_training_and_figures_need():
    code = (
        "import sys, transop_app.explorer.server, transop_app.explorer.page\n"
        "print({'matplotlib', 'lightning_fabric', 'torch._dynamo'} & set(sys.modules) or 'none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"


def test_a_port_that_is_taken_is_a_user_mistake():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1, port {port}"):
            serving(None, port=port).__enter__()


@pytest.mark.browser
@pytest.mark.parametrize("wanted", [True, False])
def test_the_browser_is_opened_only_if_wanted_and_two_pages_find_two_ports(
    full_run, monkeypatch, wanted
):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    run = ExploredRun.open(full_run)
    with serving(run, open_browser=wanted) as first, serving(run) as second:
        assert opened == ([first] if wanted else [])
        assert first != second
        for address in (first, second):
            assert urllib.request.urlopen(address).status == 200


@pytest.mark.browser
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_command_serves_says_how_to_stop_and_stops(full_run, host):
    command = [sys.executable, "-m", "transop", "explore", str(full_run), "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    # Where the tests are a shell's background job, Ctrl-C is ignored and children inherit that.
    pipes["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([*command, "--host", host], env=environment, **pipes)
    try:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert urllib.request.urlopen(address).status == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "press Ctrl-C to stop" in errors
    assert ("warning: --host" in errors) == (host == "0.0.0.0")
