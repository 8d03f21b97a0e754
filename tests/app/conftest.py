"""A small run with random but lively weights, for the tests of the explorer."""

import json
import shutil
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch

from transop.config import load_settings
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators

_METRICS = [
    {"phase": "autoencoder", "step": 10, "loss": 0.2},
    {"phase": "autoencoder", "step": 20, "loss": 0.1},
    {"phase": "autoencoder", "step": -1, "event": "finished", "seconds": 1.0},
    {"phase": "operators", "step": 5, "sign": "x", "finding": "paths run away <fast>"},
]


def _lively_model(channels, *, encoder, classifier):
    """Amplify what random networks do, so that moves can be seen."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        size = {"image_size": 16, "channels": channels}
        network = build_autoencoder("conv", latent_dimension=4, width=4, **size)
        recipe = {"network": "lenet", "numbers": {**size, "n_classes": 3}}
        model = ManifoldAutoencoder(
            network,
            TransportOperators(10, 4, generator=torch.Generator().manual_seed(0)),
            latent_scale=1.0,
            coefficient_encoder=CoefficientEncoder(4, 10, hidden=(8,)) if encoder else None,
            classifier=build_classifier("lenet", **recipe["numbers"]) if classifier else None,
            classifier_recipe=recipe if classifier else None,
            phases=("autoencoder", "operators"),
            class_names=("circle", "square", "<b>cross"),
        )
    with torch.no_grad():
        network.encoder[-1].weight.mul_(20)
        network.decoder[0].weight.mul_(5)
    return model


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Write a run folder with or without its optional parts."""

    def make(*, channels=1, encoder=True, classifier=True, labels=True, images=True):
        folder = tmp_path_factory.mktemp("run")
        _lively_model(channels, encoder=encoder, classifier=classifier).save_pretrained(folder)
        rng = np.random.default_rng(0)
        arrays = {"images": rng.integers(0, 256, (300, channels, 16, 16), np.uint8)}
        if labels:
            arrays["labels"] = np.arange(300) % 3
        data = tmp_path_factory.mktemp("data") / "shapes.npz"
        np.savez(data, **arrays)
        if images:
            settings = load_settings("demo", [f'data.source="{data}"'])
            (folder / "config.toml").write_text(settings.to_toml())
            lines = "".join(json.dumps(record) + "\n" for record in _METRICS)
            (folder / "metrics.jsonl").write_text(lines)
            (folder / "phases.json").write_text(json.dumps({"autoencoder": {"seconds": 1.0}}))
            (folder / "environment.json").write_text(json.dumps({"python": "3.11", "seed": 0}))
        return folder

    return make


@pytest.fixture(scope="session")
def full_run(make_run):
    return make_run()


@pytest.fixture(scope="session")
def chromium():
    """Start a Chromium; without one the test fails, it is not skipped."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome")
        own = playwright.chromium.executable_path
        found = next(filter(None, map(shutil.which, (*names, own))), None)
        if found is None:
            pytest.fail("no Chromium found; 'make browser-test' installs one")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open an address as a visitor who has no internet.

    What the page asks of others fails and is noted in ``page.asked``, its mistakes in
    ``page.failures``.
    """
    contexts = []

    def guard(page, route):
        host = urlsplit(route.request.url).hostname
        if host in ("127.0.0.1", None):  # data and blob addresses have no host
            route.continue_()
        else:
            page.asked.append(route.request.url)
            route.abort()

    def open_page(address, *, width=1200, **options):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.failures = [], []
        page.route("**/*", lambda route: guard(page, route))
        page.on("pageerror", lambda error: page.failures.append(str(error)))
        page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        page.goto(address)
        page.wait_for_selector("#transformed img")
        return page

    yield open_page
    for context in contexts:
        context.close()
