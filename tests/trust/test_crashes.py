"""Runs that are killed, and what is left of them."""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from transop.data import load_dataset
from transop.data.request import DatasetRequest
from transop.pairs import BACKBONES, FeatureExtractor, build_pairs
from transop_paper.published import Catalogue, PublishedFile, obtain

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(tmp_path):
    report = tmp_path / "report.json"
    script = [sys.executable, BENCHMARKS / "kill_and_resume.py", "--quick"]
    options = ["--kills", "3", "--epochs", "1", "--seed", "1", "--json", report]
    done = subprocess.run([*script, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert found["n_kills"] == len(found["kills_by_aim"]) == 3  # each in another phase
    assert found["different"] == []


def start(work, *arguments):
    """Begin something in a process of its own, and wait until it says that it is half way."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments))
    process.start()
    assert ours.poll(60), "the process never came half way"
    return process


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def half_way(pipe):
    """A progress that stops for ever after the first item."""

    def progress(items, description, total=None):
        for number, item in enumerate(items):
            if number == 1:
                pipe.send(description)
                time.sleep(600)
            yield item

    return progress


@pytest.fixture
def picture_folder(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (2100, 16, 16), np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{number:04}.png", compress_level=0)
    return folder


def test_a_full_stop_while_images_are_decoded_costs_only_time(picture_folder, tmp_path):
    cache = tmp_path / "cache"

    def work(pipe):
        load_dataset(picture_folder, cache_dir=cache, progress=half_way(pipe))

    kill(start(work))
    assert list(cache.rglob(".unfinished-*"))  # what the killed process was writing
    dataset = load_dataset(picture_folder, cache_dir=cache)
    assert len(dataset) == 2100
    fresh = load_dataset(picture_folder, cache_dir=tmp_path / "other")
    assert np.array_equal(dataset.images, fresh.images)


def test_a_full_stop_while_features_are_computed_costs_only_time(tmp_path, slow_backbone):
    images = np.random.default_rng(0).integers(0, 256, (60, 16, 16), np.uint8)
    dataset, cache = load_dataset(images), tmp_path / "cache"

    def work(pipe):
        torch.set_num_threads(1)  # a forked process has none of its parent's threads
        build_pairs(dataset, features="rows", cache_dir=cache, progress=half_way(pipe))

    kill(start(work))
    assert not list((cache / "pairs").glob("features-*"))
    pairs = build_pairs(dataset, features="rows", cache_dir=cache)
    whole = build_pairs(dataset, features="rows", cache_dir=tmp_path / "other")
    assert pairs.neighbours.equal(whole.neighbours)


@pytest.fixture
def slow_backbone(monkeypatch):
    """A backbone in small batches, so that it can be stopped between two of them."""

    def rows(size, weights, cache_dir):
        return FeatureExtractor(lambda images: images.flatten(1), 8, key="rows")

    monkeypatch.setitem(BACKBONES, "rows", rows)


def test_a_full_stop_in_the_middle_of_a_download_costs_only_time(tmp_path, half_a_server):
    content, address = half_a_server
    file = PublishedFile("data.bin", hashlib.sha256(content).hexdigest(), len(content))
    catalogue = Catalogue("toy", [file], [address])
    request = DatasetRequest(cache_dir=tmp_path)

    def work(pipe):
        obtain(catalogue, DatasetRequest(cache_dir=tmp_path, progress=half_way(pipe)))

    kill(start(work))
    assert not (tmp_path / "toy" / "data.bin").exists()
    obtained = obtain(catalogue, request)
    assert obtained.paths["data.bin"].read_bytes() == content
    assert obtain(catalogue, request).source.startswith("cache")


@pytest.fixture
def half_a_server():
    """Serve a file of several blocks on the loopback interface."""
    content = np.random.default_rng(0).bytes(3 * 2**18)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield content, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()
