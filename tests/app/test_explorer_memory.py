"""What the explorer keeps of its visitors."""

import asyncio
import gc
import importlib
import tracemalloc
from pathlib import Path

import gradio
import httpx
import pytest

from transop_app.explorer import ExploredRun
from transop_app.explorer.path import warm_up
from transop_app.explorer.server import serving

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def visitor_class(monkeypatch):
    """The benchmark's visitor, who speaks to the server as the page does."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("explorer").Visitor


async def visits(visitor_class, address, numbers):
    """Let one visitor after the other do everything once."""
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        config = (await client.get("/config")).json()
        for number in numbers:
            await visitor_class(client, config, number).rehearse()


def held_bytes():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_no_more_than_so_many_sessions_are_remembered(visitor_class, full_run, monkeypatch):
    monkeypatch.setattr("transop_app.explorer.server._MOST_SESSIONS", 3)
    run = ExploredRun.open(full_run)
    warm_up(run)
    with serving(run) as address:
        asyncio.run(visits(visitor_class, address, range(4)))  # what is loaded on first use
        tracemalloc.start()
        try:
            asyncio.run(visits(visitor_class, address, range(4, 8)))
            before = held_bytes()
            asyncio.run(visits(visitor_class, address, range(8, 18)))
            each = (held_bytes() - before) / 10
        finally:
            tracemalloc.stop()
    assert each < 100_000  # a million for each session that stays


def count_sliders():
    gc.collect()
    return sum(type(thing) is gradio.Slider for thing in gc.get_objects())


def test_a_visitor_who_stays_adds_no_part_to_the_page(visitor_class, full_run):
    run = ExploredRun.open(full_run)
    with serving(run) as address:
        asyncio.run(visits(visitor_class, address, [0]))
        before = count_sliders()
        asyncio.run(visits(visitor_class, address, [0, 0, 0]))
        assert count_sliders() == before
