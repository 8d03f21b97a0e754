"""Measure the explorer as its visitors meet it: start-up, slider to picture, many at once.

    python benchmarks/explorer.py runs/demo                # 50 visitors for three minutes
    python benchmarks/explorer.py runs/demo --users 5 --seconds 5 --moves 20

Needs the extras ``explore`` and ``dev`` and a Chromium. Serves the run with the ordinary command
and only ever talks to this machine. Prints one JSON object; the exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

BARS = {"start_seconds": 10.0, "slider_median_ms": 150.0, "errors": 0, "growth_share": 0.05}
THINKING = 1.0  # seconds a visitor rests between two actions, on average
ACTIONS = {"slider": 14, "next image": 2, "map": 2, "surprise": 1, "find-path": 1}  # how often each

# In the page: move a slider as a hand would, wait until the new picture can be painted.
MOVE = """async value => {
  const slider = document.querySelector('.tp-operator input[type=range]');
  const source = () => document.querySelectorAll('#transformed img')[1].src;
  const before = source(), start = performance.now();
  slider.value = value;
  slider.dispatchEvent(new Event('input', {bubbles: true}));
  while (source() === before) {
    if (performance.now() - start > 60000) throw new Error('the picture never came');
    await new Promise(go => setTimeout(go, 1));
  }
  await document.querySelectorAll('#transformed img')[1].decode();
  return performance.now() - start;
}"""


@contextmanager
def served(run: Path) -> Iterator[tuple[str, int, float]]:
    """Serve a run with the command line; give address, process and seconds to the first page."""
    start = time.monotonic()
    command = [sys.executable, "-u", "-m", "transop", "explore", str(run), "--no-browser"]
    # A shell's background job ignores Ctrl-C, and so would its children.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address.startswith("http://127.0.0.1:"):
            raise SystemExit("the explorer did not start; see its message above")
        httpx.get(address, timeout=120).raise_for_status()
        yield address, process.pid, time.monotonic() - start
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)


def slider_times(address: str, n_moves: int) -> list[float]:
    """Move the first slider in Chromium; give the milliseconds until each new picture is there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = shutil.which("chromium") or shutil.which("google-chrome") or own
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_selector("#transformed img")
        slider = page.locator(".tp-operator input[type=range]").first
        low, high = (float(slider.get_attribute(end) or 0) for end in ("min", "max"))
        places = [low + (high - low) * ((7 * k) % 50 + 0.5) / 50 for k in range(n_moves + 3)]
        times = [float(page.evaluate(MOVE, str(place))) for place in places]
        browser.close()
    return times[3:]  # the first ones warm up


@dataclass
class Tally:
    """What the visitors met."""

    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Visitor:
    """One simulated visitor with a session of its own, speaking as the page does."""

    def __init__(self, client: httpx.AsyncClient, config: dict[str, Any], number: int) -> None:
        self.client, self.config = client, config
        self.session, self.chance = f"visitor{number:04}", random.Random(number)
        self.parts = {part["id"]: part["props"] for part in config["components"]}
        self.sliders = [
            props
            for props in self.parts.values()
            if str(props.get("elem_id", "")).startswith("operator-")
        ]

    async def stay(self, seconds: float, tally: Tally) -> None:
        """Do one thing after the other until time is up."""
        end = time.monotonic() + seconds
        await asyncio.sleep(self.chance.uniform(0, THINKING))
        while time.monotonic() < end:
            action = self.chance.choices(list(ACTIONS), list(ACTIONS.values()))[0]
            start = time.monotonic()
            try:
                await self._do(action)
            except (httpx.HTTPError, RuntimeError, KeyError) as error:
                tally.errors.append(f"{action}: {error!r}")
            took = 1000 * (time.monotonic() - start)
            tally.milliseconds.setdefault(action, []).append(took)
            await asyncio.sleep(self.chance.expovariate(1 / THINKING))

    async def rehearse(self) -> None:
        """Do everything once, so that what is loaded or compiled on first use does not count."""
        for action in ACTIONS:
            await self._do(action)

    async def _do(self, action: str) -> None:
        if action == "slider":
            moved = {
                slider["elem_id"]: self.chance.uniform(slider["minimum"], slider["maximum"])
                for slider in self.sliders
            }
            await self._send(self.sliders[0]["elem_id"], "input", moved)
        elif action == "next image":
            number = self.chance.randint(1, 20)
            await self._send("transform-next", "click", {"transform-number": number})
        elif action == "map":
            slider = next(p for p in self.parts.values() if p.get("elem_id") == "map-point")
            point = self.chance.randint(1, int(slider["maximum"]))
            await self._send("map-point", "input", {"map-point": point})
        else:
            await self._send(action, "click", {})

    async def _send(self, target: str, event: str, values: dict[str, Any]) -> None:
        """Trigger the handler of an element's event with given values, others as they stand."""
        handler = next(
            found
            for found in self.config["dependencies"]
            if any(
                self.parts[part].get("elem_id") == target and kind == event
                for part, kind in found["targets"]
                if part in self.parts
            )
        )
        data = []
        for part in handler["inputs"]:
            props = self.parts[part]
            data.append(values.get(props.get("elem_id"), props.get("value")))
        body = {"data": data, "fn_index": handler["id"], "session_hash": self.session}
        if handler["queue"] is False:
            answer = await self.client.post("/gradio_api/run/predict", json=body)
            if answer.status_code != 200:
                raise RuntimeError(answer.text[:200])
            return
        await self._queued(body)

    async def _queued(self, body: dict[str, Any]) -> None:
        joined = await self.client.post("/gradio_api/queue/join", json=body)
        event = joined.raise_for_status().json()["event_id"]
        where = f"/gradio_api/queue/data?session_hash={self.session}"
        async with self.client.stream("GET", where) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("event_id") == event and message["msg"] == "process_completed":
                    if not message["success"]:
                        raise RuntimeError(str(message["output"])[:200])
                    return
        raise RuntimeError("the queue closed before the answer came")


async def crowd(address: str, pid: int, users: int, seconds: float) -> tuple[Tally, list[float]]:
    """Let many visitors in at once; give what they met and the server's memory over time."""
    tally, memory = Tally(), []
    limits = httpx.Limits(max_connections=4 * users, max_keepalive_connections=2 * users)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        config = (await client.get("/config")).raise_for_status().json()
        visitors = [Visitor(client, config, number) for number in range(users)]
        for visitor in visitors[:8]:
            await visitor.rehearse()
        stays = asyncio.gather(*(visitor.stay(seconds, tally) for visitor in visitors))
        while not stays.done():
            memory.append(resident_megabytes(pid))
            await asyncio.wait([stays], timeout=max(seconds / 60, 0.2))
        await stays
    memory.append(resident_megabytes(pid))
    return tally, memory


def resident_megabytes(pid: int) -> float:
    """Ask the system how much memory a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def growth(memory: list[float]) -> float:
    """Compare the last third of a stay with the middle one.

    The first third is left out: threads, caches and the allocator still fill up in it.
    """
    first, second = len(memory) // 3, 2 * len(memory) // 3
    return statistics.median(memory[second:]) / statistics.median(memory[first : second or 1]) - 1


def describe(times: list[float]) -> dict[str, float]:
    """Sum up waiting times."""
    ordered = sorted(times)
    return {
        "n": len(ordered),
        "median_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[-(-95 * len(ordered) // 100) - 1], 1),
    }


def main() -> int:
    """Run all three measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--moves", type=int, default=100)
    wanted = parser.parse_args()
    with served(wanted.run) as (address, pid, start_seconds):
        times = slider_times(address, wanted.moves)
        asyncio.run(crowd(address, pid, wanted.users, min(10, wanted.seconds)))  # all threads
        tally, memory = asyncio.run(crowd(address, pid, wanted.users, wanted.seconds))
    first, second = len(memory) // 3, 2 * len(memory) // 3
    found = {
        "start_seconds": round(start_seconds, 1),
        "slider_median_ms": describe(times)["median_ms"],
        "slider": describe(times),
        "users": wanted.users,
        "seconds": wanted.seconds,
        "actions": {name: describe(times) for name, times in sorted(tally.milliseconds.items())},
        "errors": len(tally.errors),
        "first_errors": tally.errors[:3],
        "memory_mb": [round(memory[at]) for at in (0, first, second, -1)],
        "growth_share": round(growth(memory), 4),
    }
    missed = [name for name, bar in BARS.items() if found[name] > bar]
    print(json.dumps({**found, "missed": missed}, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
