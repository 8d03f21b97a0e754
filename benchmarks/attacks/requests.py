"""HTTP requests to the explorer, over real connections."""

from __future__ import annotations

import json
import logging
import random
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from attacks import Attack, Case, Fell, Refused, damage, plain_value
from attacks.models import small_run

_PATHS = ["/", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/uploads", "/x"]
_PATHS += ["/gradio_api/run/predict", "/gradio_api/queue/join", "/gradio_api/heartbeat/x"]
_PATHS += ["/gradio_api/queue/data?session_hash=x", "/gradio_api/queue/data", "/?__theme=dark"]
_PATHS += ["/gradio_api/upload", "/gradio_api/file=/etc/passwd", "/static/../../etc/passwd"]
_PATHS += [
    "/gradio_api/component_server",
    "/gradio_api/call/x",
    "/assets/%2e%2e/x",
    "/?" + "a" * 9000,
]
_METHODS = ["GET", "GET", "POST", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "X", "get", "TRACE"]
_HOSTS = ["evil.example", "localhost", "", "[::1]", "127.0.0.1:1", "a" * 5000, "\xff", "x y", "]["]
_ORIGINS = ["http://evil.example", "null", "http://localhost:1", "", "x" * 5000, "http://["]
_SITES = ["cross-site", "same-site", "same-origin", "none", "x"]
_LENGTHS = ["-1", "x", "99999999999999", "0", "5", "1e3", "0x10", "9" * 400]
_SECONDS = 3  # without a word: the server waits for what was announced and not sent
_SECRET = re.compile(rb"root:x:|Traceback|site-packages")


class Requests(Attack):
    """Ask a served run for everything, politely and otherwise."""

    def __init__(self, folder: Path) -> None:
        from transop_app.explorer import ExploredRun
        from transop_app.explorer.server import serving

        logging.disable(logging.CRITICAL)
        data = folder / "data.npz"
        np.savez(data, images=np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8))
        run = ExploredRun.open(small_run(folder / "run", data))
        super().__init__(folder)
        self.serving = serving(run)
        self.address = urlsplit(self.serving.__enter__())
        self.config = json.loads(self._ask(self._message("GET", "/config", {}, b""))[1])

    def case(self, chance: random.Random) -> Case:
        """Make up a request: any at all, or a call of the page with wrong values."""
        if chance.random() < 0.5:
            name, message, sender = self._call(chance)
        else:
            name, message, sender = self._anything(chance)
        return name, lambda: self._judge(message, sender)

    def close(self) -> None:
        """Stop the server."""
        self.serving.__exit__(None, None, None)

    def _message(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        given = {"Host": self.address.netloc, "Content-Length": str(len(body)), **headers}
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in given.items()),
        ]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body

    def _anything(self, chance: random.Random) -> tuple[str, bytes, str]:
        method, path = chance.choice(_METHODS), chance.choice(_PATHS)
        if chance.random() < 0.1:
            path = "/" + quote(chance.randbytes(12))
        headers: dict[str, str] = {}
        for name, values in (
            ("Host", _HOSTS),
            ("Origin", _ORIGINS),
            ("Sec-Fetch-Site", _SITES),
            ("Content-Length", _LENGTHS),
            ("X-Forwarded-Host", ["evil.example"]),
            ("Transfer-Encoding", ["chunked", "x"]),
            ("Content-Type", ["application/json", "multipart/form-data; boundary=x", "\xff"]),
        ):
            if chance.random() < 0.2:
                headers[name] = chance.choice(values)
        body = chance.randbytes(chance.choice((0, 0, 10, 3000))) if method == "POST" else b""
        message = self._message(method, path, headers, body)
        name = f"{method} {path[:60]} {sorted(headers)}"
        if chance.random() < 0.15:
            message, name = damage(message, chance), f"damaged {name}"
        return name, message, headers.get("Host", "") + headers.get("Origin", "")

    def _call(self, chance: random.Random) -> tuple[str, bytes, str]:
        calls, parts = self.config["dependencies"], {p["id"]: p for p in self.config["components"]}
        call = chance.choice(calls)
        data = [parts[part]["props"].get("value") for part in call["inputs"]]
        fields: dict[str, Any] = {"fn_index": call["id"], "data": data, "session_hash": "attack"}
        fields["event_data"] = {}
        spoiled, value = plain_value(chance)
        target = chance.choice(["data", "data", "fn_index", "session_hash", "event_data", "none"])
        if target == "data" and data:
            data[chance.randrange(len(data))] = value
        elif target == "event_data":
            key = chance.choice(("files", "picture", "point", "cell", "x"))
            fields["event_data"] = chance.choice((value, {key: value}))
        elif target != "none":
            fields[target] = value
        text = json.dumps(fields, default=str)
        body = damage(text.encode(), chance) if chance.random() < 0.1 else text.encode()
        path = chance.choice(("/gradio_api/run/predict", "/gradio_api/queue/join"))
        headers = {"Content-Type": "application/json"}
        return (
            f"call {call['id']} {target}={spoiled}",
            self._message("POST", path, headers, body),
            "",
        )

    def _ask(self, message: bytes) -> tuple[int, bytes]:
        """Send bytes and read the answer; a stream is left after its first words."""
        where = (self.address.hostname, self.address.port)
        answer = b""
        with socket.create_connection(where, timeout=_SECONDS) as connection:
            try:
                connection.sendall(message)
                while len(answer) < 2**24 and (some := connection.recv(2**16)):
                    answer += some
                    if b"text/event-stream" in answer and b"data:" in answer:
                        break
            except (ConnectionError, TimeoutError):
                pass
        head, _, body = answer.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.1 (\d{3})", head)
        return int(status.group(1)) if status else 0, body

    def _judge(self, message: bytes, sender: str) -> None:
        status, body = self._ask(message)
        if status >= 500 and status != 503:
            raise Fell("raw exception", f"status {status}: {body[:200]!r}")
        if status == 200 and "evil" in sender:
            raise Fell("accepted nonsense", "a foreign host or origin was answered")
        if _SECRET.search(body):
            raise Fell("accepted nonsense", f"the answer shows {_SECRET.search(body)!r}")
        if status != 200:
            raise Refused(f"status {status}")
