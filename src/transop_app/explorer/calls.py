"""Check the calls that the page makes, before Gradio sees them.

Gradio prints a traceback for every value of a wrong type. Here each value is compared with the
part of the page that it claims to come from, and a wrong one is refused in a sentence.
"""

import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from transop_app.explorer.gate import Refused

Check = Callable[[Any], bool]
_LARGEST_NUMBER = 1e9
_SESSION = re.compile(r"\w{1,64}", re.ASCII)


def call_checker(config: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """Build the check for the calls of a page.

    The check gives the body of a call in a clean form or raises ``Refused``; ``config`` is what
    the page's address ``/config`` gives.
    """
    parts = {part["id"]: part for part in config["components"]}
    functions = {
        call["id"]: [_value_check(parts[part]) for part in call["inputs"]]
        for call in config["dependencies"]
    }

    def check(body: bytes) -> bytes:
        call = _parse(body)
        number, session, data = call.get("fn_index"), call.get("session_hash"), call.get("data")
        if type(number) is not int or number not in functions:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no function {str(number)[:40]!r}")
        if not isinstance(session, str) or not _SESSION.fullmatch(session):
            raise _wrong("'session_hash' must be at most 64 letters and digits")
        checks = functions[number]
        if not isinstance(data, list) or len(data) != len(checks):
            raise _wrong(f"function {number} takes {len(checks)} values in a list 'data'")
        for position, (is_right, value) in enumerate(zip(checks, data, strict=True), 1):
            if not is_right(value):
                words = f"value {position} of function {number}, {str(value)[:40]!r}"
                raise _wrong(f"{words}, is not one that the page could send")
        event, trigger = call.get("event_data"), call.get("trigger_id")
        clean = {
            "fn_index": number,
            "session_hash": session,
            "data": data,
            "event_data": event if isinstance(event, dict) else {},
            "trigger_id": trigger if type(trigger) is int and trigger in parts else None,
        }
        return json.dumps(clean).encode()

    return check


def _parse(body: bytes) -> dict[str, Any]:
    """Read JSON strictly: no NaN, no lone surrogates, no endless nesting."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        call = json.loads(body, parse_constant=refuse)
        json.dumps(call, ensure_ascii=False, allow_nan=False).encode()  # surrogates and infinity
    except (ValueError, RecursionError):
        raise _wrong("the body of a call must be valid JSON") from None
    if not isinstance(call, dict):
        raise _wrong("the body of a call must be a JSON object")
    return call


def _value_check(part: Mapping[str, Any]) -> Check:
    """Say which values a part of the page can have."""
    props, kind = part["props"], part["type"]
    if kind == "state":  # lives on the server; what the page sends in its place is not used
        return lambda value: value is None
    if kind == "slider":
        slack = 1e-6 * (props["maximum"] - props["minimum"])
        low, high = props["minimum"] - slack, props["maximum"] + slack
        return lambda value: _is_number(value) and low <= value <= high
    if kind == "number":
        return lambda value: value is None or _is_number(value)
    if kind in ("dropdown", "radio"):
        choices = [value for _, value in props["choices"]]
        return lambda value: any(type(value) is type(c) and value == c for c in choices)
    raise ValueError(f"the page uses a {kind} as input, for which there is no check")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST_NUMBER


def _wrong(words: str) -> Refused:
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, words)
