"""What the explorer keeps of its visitors."""

import asyncio
import gc
import importlib
import tracemalloc
from pathlib import Path

import httpx
import pytest

from transop.explorer import open_run
from transop.explorer.path import warm_up
from transop.explorer.server import serving

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


@pytest.mark.browser
def test_a_visitor_leaves_an_image_and_a_path_behind_but_not_the_pictures_shown(
    visitor_class, full_run
):
    run = open_run(full_run)
    warm_up(run)
    with serving(run) as address:
        asyncio.run(visits(visitor_class, address, range(3)))  # what is loaded on first use
        tracemalloc.start()
        try:
            before = held_bytes()
            asyncio.run(visits(visitor_class, address, range(3, 13)))
            each = (held_bytes() - before) / 10
        finally:
            tracemalloc.stop()
    assert each < 200_000  # a million with everything that the page has shown
