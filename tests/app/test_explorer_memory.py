"""What the explorer keeps of its visitors."""

import asyncio
import gc
import importlib
import platform
import subprocess
import sys
import tracemalloc
from pathlib import Path

import gradio
import httpx
import pytest

from transop.explorer import ExploredRun, memory
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
    run = ExploredRun.open(full_run)
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


def count_sliders():
    gc.collect()
    return sum(type(thing) is gradio.Slider for thing in gc.get_objects())


@pytest.mark.browser
def test_a_visitor_who_stays_adds_no_part_to_the_page(visitor_class, full_run):
    run = ExploredRun.open(full_run)
    with serving(run) as address:
        asyncio.run(visits(visitor_class, address, [0]))
        before = count_sliders()
        asyncio.run(visits(visitor_class, address, [0, 0, 0]))
        assert count_sliders() == before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_freed_memory_goes_back_to_the_system_although_small_things_stay():
    code = """
import resource, runpy, sys, numpy as np
runpy.run_path(sys.argv[1])['return_freed_memory']()  # without torch, whose heap has other holes
held = lambda: int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 2**20
np.ones(2**21)  # 16 MB: from now on glibc by itself would keep blocks of that size
before, kept, blocks = held(), [], []
for _ in range(64):
    blocks.append(np.ones(2**18))
    kept.append(bytearray(2000))
del blocks
print(held() - before)
"""
    command = [sys.executable, "-c", code, memory.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 20  # megabytes, of 128
