"""What the server lets through: requests of its own page, under names it knows, and nothing else.

A page on another site can make a browser send requests to this machine, and can make its own
name point here (DNS rebinding). So the gate stands in front of the whole application and checks
the host name, the origin, the address asked for and the size and form of what is sent. Everything
that it refuses gets one sentence and one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transop.errors import UserError
from transop_app.explorer.uploads import LARGEST_FILE, Uploads

logger = logging.getLogger(__name__)

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_LARGEST_CALL = 2 * 2**20  # bytes; a drawing is the largest thing a call contains
_SECONDS = 60  # within which a request must have arrived
_FILE = r"(?:[\w@+-][\w.@+-]*/)*[\w@+-][\w.@+-]*"  # no part begins with a dot
_READ = re.compile(
    rf"/|/config|/theme\.css|/favicon\.ico|/manifest\.json|/(?:assets|static)/{_FILE}"
    r"|/gradio_api/(?:queue/data|heartbeat/\w{1,64})"
)
_CALLS = ("/gradio_api/queue/join", "/gradio_api/run/predict")
UPLOAD = "/uploads"
_QUERY = {"session_hash": re.compile(r"\w{1,64}"), "__theme": re.compile("light|dark")}
# Headers the application may see. Above all it must not see forwarded host names, which it repeats.
_HEADERS = {b"host", b"accept", b"accept-language", b"content-type", b"user-agent"}
_HEADERS |= {b"if-none-match", b"if-modified-since"}
# Nothing from outside is loaded, no other page may frame or read this one. Gradio needs inline
# scripts and builds functions from text.
_ADDED = {
    "content-security-policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "frame-ancestors 'none'; form-action 'self'; base-uri 'self'",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Refused(Exception):
    """A request that is not let through, with its HTTP status and a sentence."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class Gate:
    """An ASGI application that checks requests before another one sees them.

    It answers under ``names``, and under the address that a connection has reached it by.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: Iterable[str],
        uploads: Uploads,
        check_call: Callable[[bytes], bytes],
    ) -> None:
        self._app = app
        self._names = {name.lower() for name in names}
        self._uploads = uploads
        self._check_call = check_call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the page opens no web socket
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        try:
            await self._answer(scope, receive, answer)
        except Refused as refused:
            logger.warning("refused: %s", refused)
            await answer.end(refused.status, str(refused))
        except Exception as error:
            kind = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            logger.warning("a request failed (%s)", kind)
            await answer.end(HTTPStatus.INTERNAL_SERVER_ERROR, "the server could not answer this")

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = Headers(scope=scope)
        host = self._check_host(scope, headers)
        _check_sender(scope, headers, host)
        path, method = scope["path"], scope["method"]
        scope = {**scope, **self._cleaned(scope, headers, host)}
        if method in ("GET", "HEAD") and _READ.fullmatch(path):
            await self._app(scope, receive, answer.send)
        elif method == "POST" and path == UPLOAD:
            await answer.end(HTTPStatus.OK, await self._upload(headers, receive), key="token")
        elif method == "POST" and path in _CALLS:
            body = self._check_call(await _read_body(receive, _LARGEST_CALL))
            length = (b"content-length", str(len(body)).encode())
            scope["headers"] = [*scope["headers"], length]
            await self._app(scope, _replay(body, receive), answer.send)
        elif method in ("GET", "HEAD", "POST"):
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        else:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are answered")

    def _check_host(self, scope: Scope, headers: Headers) -> str:
        """Give the host and port asked for if the server goes by that name."""
        given = headers.getlist("host")
        host = given[0].lower() if len(given) == 1 else ""
        name = _host_name(host)
        reached = _plain_address(str((scope.get("server") or ("",))[0]))
        if not name or (name not in self._names and name != reached):
            words = f"the host {host[:80]!r} is not one of this server's names"
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                words + "; if it should be, start the server with --allow-host",
            )
        return host

    def _cleaned(self, scope: Scope, headers: Headers, host: str) -> dict[str, Any]:
        """Keep the headers and query parameters that the page uses."""
        kept = [(name, value) for name, value in scope["headers"] if name.lower() in _HEADERS]
        query = [
            (name, value)
            for name, value in parse_qsl(scope["query_string"].decode("latin-1"))
            if name in _QUERY and _QUERY[name].fullmatch(value)
        ]
        # A proxy that speaks https says so; it is believed for names given by --allow-host.
        is_https = headers.getlist("x-forwarded-proto") == ["https"]
        is_proxied = _host_name(host) in self._names.difference(LOCAL_NAMES)
        scheme = "https" if is_https and is_proxied else scope["scheme"]
        return {"headers": kept, "query_string": urlencode(query).encode(), "scheme": scheme}

    async def _upload(self, headers: Headers, receive: Receive) -> str:
        """Take a file into memory for a few minutes; give the token that stands for it."""
        length = "".join(headers.getlist("content-length"))
        if not re.fullmatch(r"[0-9]{1,12}", length):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "an upload must state its length")
        size = int(length)
        if size > LARGEST_FILE:
            raise _too_large(LARGEST_FILE)
        try:
            token = self._uploads.reserve(size)
        except UserError as error:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        try:
            self._uploads.fill(token, await _read_body(receive, size))
        except BaseException:
            self._uploads.drop(token)
            raise
        asyncio.get_running_loop().call_later(self._uploads.seconds, self._uploads.drop, token)
        return token


class _Answer:
    """An answer under way; knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_begun = False
        self._has_ended = False

    async def send(self, message: Message) -> None:
        """Pass a message of the application on, with our headers instead of its CORS headers."""
        if message["type"] == "http.response.start":
            self._has_begun = True
            given = ((name.lower(), value) for name, value in message.get("headers", []))
            kept = [pair for pair in given if not pair[0].startswith(b"access-control-")]
            headers = MutableHeaders(raw=kept)
            headers.update(_ADDED)
            message = {**message, "headers": headers.raw}
        if message["type"] == "http.response.body":
            self._has_ended = not message.get("more_body", False)
        await self._send(message)

    async def end(self, status: HTTPStatus, words: str, *, key: str = "detail") -> None:
        """Send a short JSON answer, or end the one that has begun."""
        if self._has_begun and not self._has_ended:
            await self.send({"type": "http.response.body", "body": b""})
        elif not self._has_begun:
            # What is left of a refused request's body is not read.
            headers = {"connection": "close"} if status >= HTTPStatus.BAD_REQUEST else None
            answer = JSONResponse({key: words}, status, headers)
            await answer({"type": "http"}, _no_more, self.send)


async def _no_more() -> Message:
    return {"type": "http.disconnect"}


def _host_name(host: str) -> str:
    """Take the name out of ``name:port``; empty for anything else."""
    if not re.fullmatch(r"(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?", host, re.ASCII):
        return ""
    return urlsplit(f"//{host}").hostname or ""


def _plain_address(text: str) -> str:
    """Write an IPv4 address that came in through an IPv6 socket as an IPv4 address."""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _check_sender(scope: Scope, headers: Headers, host: str) -> None:
    """Refuse what a page of another site makes a browser send; other ports are other sites.

    Browsers state the origin of everything that may change something, and newer ones the
    relation between the sites for every request. A link from another site to the page is fine.
    """
    origins = headers.getlist("origin")
    own = {f"{scheme}://{host}" for scheme in ("http", "https")}
    if any(origin.lower() not in own for origin in origins):
        words = f"a page of {origins[0][:80]!r} may not use this server"
        raise Refused(HTTPStatus.FORBIDDEN, words)
    sites = set(headers.getlist("sec-fetch-site"))
    is_link = (
        scope["method"] == "GET"
        and scope["path"] == "/"
        and headers.getlist("sec-fetch-mode") == ["navigate"]
        and headers.getlist("sec-fetch-dest") == ["document"]
    )
    if not sites <= {"same-origin", "none"} and not is_link:
        raise Refused(HTTPStatus.FORBIDDEN, "a page of another site may not use this server")


async def _read_body(receive: Receive, limit: int) -> bytes:
    """Read what was sent, but never more than the limit and not for longer than a minute."""
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refused(HTTPStatus.BAD_REQUEST, "the request did not arrive whole")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None


def _too_large(limit: int) -> Refused:
    words = f"larger than {limit // 2**20} MB" if limit >= 2**20 else "larger than announced"
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"what was sent is {words}")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand out a body that has been read, then what follows it."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
