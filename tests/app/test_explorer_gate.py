"""What the explorer's server lets through: asked over real connections, with forged headers."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from io import BytesIO
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from transop_app.explorer import ExploredRun
from transop_app.explorer.server import serving
from transop_app.explorer.uploads import LARGEST_FILE, Uploads

PREDICT, JOIN = "/gradio_api/run/predict", "/gradio_api/queue/join"


@pytest.fixture(scope="module")
def address(full_run):
    with serving(ExploredRun.open(full_run), allow_hosts=["lab.example"]) as served:
        yield urlsplit(served)


def ask(address, path="/", method="GET", headers=None, body=None):
    """Send one request with exactly these headers; give status, headers and body."""
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    given = {"Host": address.netloc, **(headers or {})}
    if body is not None:
        given.setdefault("Content-Length", str(len(body)))
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                connection.putheader(name, each)
    connection.endheaders()
    if body is not None:
        connection.send(body)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


@pytest.fixture(scope="module")
def config(address):
    return json.loads(ask(address, "/config")[2])


def function(config, target, event):
    """Give the number of the handler of an element's event, and values it takes."""
    parts = {part["id"]: part for part in config["components"]}
    for call in config["dependencies"]:
        for part, kind in call["targets"]:
            if parts[part]["props"].get("elem_id") == target and kind == event:
                return call["id"], [parts[p]["props"].get("value") for p in call["inputs"]]
    raise AssertionError((target, event))


def call(address, path, **fields):
    body = json.dumps(fields).encode()
    return ask(address, path, "POST", {"Content-Type": "application/json"}, body)


def run_call(address, number, data, event=None, session="somebody"):
    """Put a call into the queue and wait for its answer."""
    fields = {"fn_index": number, "data": data, "session_hash": session, "event_data": event}
    status, _, body = call(address, JOIN, **fields)
    assert status == 200, body
    lines = ask(address, f"/gradio_api/queue/data?session_hash={session}")[2].decode()
    messages = [json.loads(line[5:]) for line in lines.splitlines() if line.startswith("data:")]
    return next(m for m in messages if m["msg"] == "process_completed")


def picture():
    buffer = BytesIO()
    Image.fromarray(np.tile(np.arange(40, dtype=np.uint8) * 6, (40, 1))).save(buffer, "PNG")
    return buffer.getvalue()


def upload(address, content, **headers):
    status, _, body = ask(address, "/uploads", "POST", headers, content)
    return status, json.loads(body)


# Host names


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example",
        "10.1.2.3",
        "",
        None,
        "127.0.0.1@evil.example",
        "localhost:{port}/x",
        "127.0.0.1.nip.io:{port}",
        ["localhost:{port}", "evil.example"],
    ],
)
@pytest.mark.parametrize("path", ["/", "/config", PREDICT])
def test_a_foreign_host_is_refused(address, host, path):
    if isinstance(host, str):
        host = host.format(port=address.port)
    status, headers, body = ask(address, path, headers={"Host": host})
    assert status in (400, 421)
    assert "access-control-allow-origin" not in {name.lower() for name in headers}
    assert len(body) < 400
    assert b"gradio" not in body


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
@pytest.mark.parametrize("port", [None, 9999])
def test_this_machine_is_known_by_its_usual_names_through_a_tunnel_too(address, host, port):
    host = host.format(port=port or address.port)
    assert ask(address, headers={"Host": host})[0] == 200


def test_a_name_that_was_allowed_is_answered_and_speaks_the_proxys_https(address):
    status, _, body = ask(address, headers={"Host": "lab.example", "X-Forwarded-Proto": "https"})
    assert status == 200
    assert b"https://lab.example" in body
    assert b"http://lab.example" not in body


def test_forwarded_hosts_are_not_repeated(address):
    names = ("X-Forwarded-Host", "X-Forwarded-Server", "X-Original-Host", "X-Host", "Forwarded")
    headers = dict.fromkeys(names, "evil.example") | {"Forwarded": "host=evil.example"}
    headers |= {"X-Forwarded-Proto": "https", "X-Gradio-Server": "http://evil.example"}
    for path in ("/", "/config", "/theme.css"):
        status, given, body = ask(address, path, headers=headers)
        assert status == 200
        assert "evil.example" not in str(given)
        assert b"evil.example" not in body
        assert f"https://{address.netloc}".encode() not in body


# Origins


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "http://127.0.0.1",
        "null",
        "",
        "file://",
        "http://{host}.evil.example",
        "http://evil.example/?http://{host}",
        "ftp://{host}",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/config"),
        ("POST", PREDICT),
        ("POST", JOIN),
        ("POST", "/uploads"),
        ("OPTIONS", PREDICT),
        ("OPTIONS", "/uploads"),
        ("GET", "/gradio_api/queue/data"),
    ],
)
def test_a_foreign_origin_is_refused(address, origin, method, path):
    headers = {
        "Origin": origin.format(host=address.netloc),
        "Cookie": "x=1",
        "Access-Control-Request-Method": "POST",
    }
    status, given, body = ask(address, path, method, headers, b"{}" if method == "POST" else None)
    assert status == 403
    assert not any(name.lower().startswith("access-control") for name in given)
    assert len(body) < 400


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_another_site_can_link_to_the_page_and_do_nothing_else(address, site):
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ask(address, "/", headers=link)[0] == 200
    assert ask(address, "/config", headers=link)[0] == 403
    framed = {**link, "Sec-Fetch-Dest": "iframe"}
    assert ask(address, "/", headers=framed)[0] == 403
    assert ask(address, "/uploads", "POST", link, b"x")[0] == 403


def test_the_page_itself_may_call_and_its_answers_allow_no_other_origin(address, config):
    number, data = function(config, "reset", "click")
    body = json.dumps({"fn_index": number, "data": data, "session_hash": "own"}).encode()
    headers = {
        "Origin": f"http://{address.netloc}",
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/json",
    }
    status, given, body = ask(address, PREDICT, "POST", headers, body)
    assert status == 200
    assert b"data:image/png" in body
    names = {name.lower() for name in given}
    assert not any(name.startswith("access-control") for name in names)
    assert {"x-frame-options", "content-security-policy"} <= names


# Files


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file={file}",
        "/gradio_api/file/{file}",
        "/file={file}",
        "/gradio_api/proxy=http://127.0.0.1/",
        "/gradio_api/upload",
        "/gradio_api/upload_progress?upload_id=1",
        "/gradio_api/deep_link?session_hash=a",
        "/gradio_api/component_server",
        "/gradio_api/stream/{file}",
        "/gradio_api/info",
        "/gradio_api/openapi.json",
        "/gradio_api/runs",
        "/gradio_api/custom_component/x/client/component/../../x",
        "/gradio_api/vibe-code",
        "/gradio_api/call/moved",
        "/monitoring",
        "/monitoring/summary",
        "/svelte/{file}",
        "/static/../../../../../..{file}",
        "/static/%2e%2e/%2e%2e/{file}",
        "/assets/..%2f..%2f..%2f..{file}",
        "/assets//etc/passwd",
        "/uploads/anything",
        "/docs",
        "/openapi.json",
        "/login",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_no_file_and_no_other_address_can_be_asked_for(address, full_run, path, method):
    path = path.format(file=full_run / "model.safetensors")
    status, _, body = ask(address, path, method, body=b"{}" if method == "POST" else None)
    assert status == 404
    assert len(body) < 400


def test_answers_show_no_path_of_the_server(address, config, full_run):
    whole = ask(address)[2].decode() + json.dumps(config)
    assert str(full_run.parent) not in whole
    assert "shapes.npz" in whole  # the settings' data source, without its folder
    number, _ = function(config, "run-again", "click")
    answer = call(address, PREDICT, fn_index=number, data=[], session_hash="reader")[2].decode()
    assert "shapes.npz" in answer
    assert str(full_run.parent) not in answer


# Uploads


def test_an_upload_is_read_once_and_cannot_be_fetched_back(address, config):
    status, told = upload(address, picture())
    assert status == 200
    assert re.fullmatch(r"[\w-]{20,}", told["token"])
    for path in (f"/uploads/{told['token']}", f"/gradio_api/file={told['token']}"):
        assert ask(address, path)[0] == 404
    number, data = function(config, "transform-upload", "submit")
    event = {"files": [{"name": "/home/x/stripes.png", "token": told["token"]}]}
    assert run_call(address, number, data, event)["success"]
    again = run_call(address, number, data, event)
    assert not again["success"]
    assert again["output"]["error"] == "'stripes.png' did not arrive; upload it again"


def test_an_upload_that_is_too_large_is_refused_before_it_is_read(address):
    for length in (str(LARGEST_FILE + 1), "9" * 12):
        assert ask(address, "/uploads", "POST", {"Content-Length": length})[0] == 413
    for length in ("-1", "many", "9" * 40):
        assert ask(address, "/uploads", "POST", {"Content-Length": length})[0] in (400, 411, 413)
    chunked = {"Transfer-Encoding": "chunked", "Content-Length": None}
    assert ask(address, "/uploads", "POST", chunked, b"0\r\n\r\n")[0] == 411


def test_a_call_that_is_too_large_is_refused(address):
    assert ask(address, JOIN, "POST", {}, b" " * (2 * 2**20 + 1))[0] == 413


@contextmanager
def explorer(folder, temporary):
    """Start the command with a temporary folder of its own; give the process and its address."""
    command = [sys.executable, "-m", "transop", "explore", str(folder), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process, urlsplit(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()


def files_below(folder):
    return [file for file in folder.rglob("*") if not file.is_dir()]


def test_uploads_never_reach_the_disk_and_a_terminated_server_leaves_nothing(full_run, tmp_path):
    with explorer(full_run, tmp_path) as (process, address):
        config = json.loads(ask(address, "/config")[2])
        token = upload(address, picture())[1]["token"]
        number, data = function(config, "transform-upload", "submit")
        failing = {"files": [{"name": "x.png", "token": upload(address, b"bad")[1]["token"]}]}
        assert not run_call(address, number, data, failing)["success"]
        assert token
        kinds = {file.suffix for file in files_below(tmp_path)}
        assert not kinds & {".png", ".zip", ".bin", ""}, files_below(tmp_path)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "stopped" in errors
    assert list(tmp_path.glob("transop-explorer-*")) == []
    assert list(tmp_path.glob("gradio*")) == []


def test_uploads_have_a_total_and_room_is_made_by_reading_or_dropping():
    uploads = Uploads(total=100)
    first, second = uploads.reserve(60), uploads.reserve(40)
    with pytest.raises(Exception, match="too many uploads are waiting"):
        uploads.reserve(1)
    uploads.fill(first, b"x" * 60)
    assert uploads.take([{"name": "a.png", "token": first}]) == [("a.png", b"x" * 60)]
    uploads.drop(second)
    assert len(uploads) == 0
    uploads.reserve(100)


def test_uploads_nobody_reads_expire(full_run, monkeypatch):
    made = []

    def hasty():
        made.append(Uploads(total=1000, seconds=0.5))
        return made[0]

    monkeypatch.setattr("transop_app.explorer.server.Uploads", hasty)
    with serving(ExploredRun.open(full_run)) as served:
        address = urlsplit(served)
        assert upload(address, b"x" * 900)[0] == 200
        status, told = upload(address, b"x" * 900)
        assert (status, "try again" in told["detail"]) == (503, True)
        assert len(made[0]) == 1
        end = time.monotonic() + 60
        while len(made[0]) and time.monotonic() < end:
            time.sleep(0.05)
        assert upload(address, b"x" * 900)[0] == 200


def test_an_upload_that_breaks_off_frees_its_room(full_run, monkeypatch):
    uploads = Uploads(total=1000)
    monkeypatch.setattr("transop_app.explorer.server.Uploads", lambda: uploads)
    with serving(ExploredRun.open(full_run)) as served:
        address = urlsplit(served)
        head = f"POST /uploads HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: 900\r\n\r\n"
        with socket.create_connection((address.hostname, address.port)) as broken:
            broken.sendall(head.encode() + b"x" * 10)
            end = time.monotonic() + 60
            while not len(uploads) and time.monotonic() < end:
                time.sleep(0.01)
        while len(uploads) and time.monotonic() < end:
            time.sleep(0.01)
        assert len(uploads) == 0


# Calls that the page would not make

WRONG = ["x", "\ud800", None, [], {}, [1], True, 1e308, -(10**400), float("nan"), "0" * 10000]


def raw(**fields):
    return json.dumps(fields).encode()


def test_values_of_a_wrong_type_cost_a_sentence_and_a_line(address, config, caplog, capfd):
    number, data = function(config, "map-point", "input")
    assert data
    for path in (PREDICT, JOIN):
        for wrong in WRONG:
            body = raw(fn_index=number, data=[wrong, *data[1:]], session_hash="s")
            status, _, body = ask(address, path, "POST", {"Content-Type": "application/json"}, body)
            assert status == 422
            assert json.loads(body)["detail"]
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    lines = [record for record in caplog.records if "refused" in record.message]
    assert len(lines) == 2 * len(WRONG)
    assert all(len(record.message) < 300 and "\n" not in record.message for record in lines)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100000,
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b'{"fn_index": ' + b"9" * 6000 + b"}",
        raw(fn_index=0),
        raw(fn_index=0, data=3),
    ],
)
@pytest.mark.parametrize("path", [PREDICT, JOIN])
def test_what_is_no_call_is_refused(address, body, path, capfd):
    status, _, answer = ask(address, path, "POST", {"Content-Type": "application/json"}, body)
    assert status == 422
    assert json.loads(answer)["detail"]
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("number", [10**6, -1, "moved", None, 1.0, True, [0]])
def test_a_function_that_does_not_exist_is_named(address, number):
    status, _, body = call(address, PREDICT, fn_index=number, data=[], session_hash="s")
    assert status == 404
    assert "there is no function" in json.loads(body)["detail"]


@pytest.mark.parametrize("session", [None, "", "a b", "é", "x" * 65, "../x", 7, ["a"]])
def test_a_session_of_an_odd_name_is_refused(address, config, session):
    number, data = function(config, "reset", "click")
    assert call(address, JOIN, fn_index=number, data=data, session_hash=session)[0] == 422


@pytest.mark.parametrize("event", [None, 3, "x", [], {}, {"picture": 3}, {"files": "x"}])
@pytest.mark.parametrize(
    "target", [("transform-draw", "submit"), ("transform-upload", "submit"), ("heat", "click")]
)
def test_events_with_odd_contents_get_an_answer(address, config, target, event, capfd):
    number, data = function(config, *target)
    message = run_call(address, number, data, event, session="odd")
    assert message["success"] == (target[0] == "heat")
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_lone_surrogate_in_an_event_does_not_cut_the_stream(address, config):
    number, data = function(config, "heat", "click")
    body = b'{"fn_index": %d, "data": [], "session_hash": "s", "event_data": {"cell": "\\udc80"}}'
    assert ask(address, JOIN, "POST", {}, body % number)[0] == 422
    name = {"files": [{"name": "naïve 😀.png", "token": "none"}]}
    number, data = function(config, "transform-upload", "submit")
    assert "naïve 😀.png" in run_call(address, number, data, name)["output"]["error"]


def test_an_unknown_session_is_told_so_without_a_traceback(address, capfd):
    for session in ("nobody", "%ed%a0%80", ""):
        status, _, _ = ask(address, f"/gradio_api/queue/data?session_hash={session}")
        assert status in (200, 422)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_bug_in_a_handler_is_one_line_and_shows_nothing_of_the_server(
    address, config, monkeypatch, caplog, capfd
):
    def broken(*arguments):
        raise KeyError("/secret/folder/x")

    monkeypatch.setattr("transop_app.explorer.views.transform.surprise", broken)
    number, data = function(config, "surprise", "click")
    answer = run_call(address, number, data)
    assert answer["output"]["error"] == "This did not work; the server's log says why."
    assert "Traceback" not in "".join(capfd.readouterr())
    assert [r.message for r in caplog.records if "handler failed" in r.message]
