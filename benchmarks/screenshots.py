"""Photograph every view of the explorer for docs/explorer.md.

    python benchmarks/screenshots.py runs/mnist

serves the run on this machine, uses the page as a visitor would, and writes
docs/pictures/explorer-*.png. Needs the extras ``explore`` and ``dev`` and a Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs_pictures import shrink
from playwright.sync_api import Page, sync_playwright

from transop_app.explorer import ExploredRun
from transop_app.explorer.html import png
from transop_app.explorer.path import warm_up
from transop_app.explorer.server import serving

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
# Name, width of the window, colour scheme, and which views to photograph.
SITTINGS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "": (1200, "light", ("Transform", "Path", "Map", "Invariance", "Augment", "Run")),
    "-dark": (1200, "dark", ("Map",)),
    "-phone": (390, "light", ("Transform", "Path", "Invariance")),
}


def use_transform(page: Page, run: ExploredRun) -> None:
    """Push one slider out of its range and ask for surprises."""
    page.locator(".tp-operator input[type=range]").first.focus()
    for _ in range(34):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("#marks .tp-beyond")
    page.click("#surprise")
    page.wait_for_selector("#surprises img")


def use_path(page: Page, run: ExploredRun) -> None:
    """Walk between two images of one class, where the run has classes."""
    if run.has_labels:
        number = run.rows(int(run.images.labels[0])) if run.images is not None else [0, 1]
        page.locator("#path-end-number input").fill(str(int(number[1]) + 1))
        before = page.locator("#path-end-image img").get_attribute("src")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "before => document.querySelector('#path-end-image img').src !== before", arg=before
        )
    page.click("#find-path")
    page.wait_for_selector("#strips img")


def use_map(page: Page, run: ExploredRun) -> None:
    """Choose a point."""
    page.locator("#map circle[data-point='17']").dispatch_event("click")
    page.wait_for_selector("#map-about :text('image 18')")


def use_invariance(page: Page, run: ExploredRun) -> None:
    """Choose a cell."""
    page.locator("#heat button").nth(12).click()
    page.wait_for_selector("#tolerance img")


def use_augment(page: Page, run: ExploredRun) -> None:
    """Augment five held-out images."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"image-{number}.png" for number in range(1, 6)]
        for number, file in enumerate(files, 1):
            file.write_bytes(png(run.example(None, number).numpy()))
        page.locator("#augment-files input[type=file]").set_input_files(files)
        page.wait_for_selector("#augment-files >> text=image-5")
        page.click("#augment-files button")
        page.wait_for_selector("#augmented img")


USES: dict[str, Callable[[Page, ExploredRun], None]] = {
    "Transform": use_transform,
    "Path": use_path,
    "Map": use_map,
    "Invariance": use_invariance,
    "Augment": use_augment,
    "Run": lambda page, run: None,
}


def show(page: Page, view: str) -> None:
    """Choose a view; on a narrow page its tab may be folded away."""
    tab = page.get_by_role("tab", name=view, exact=True).first
    if tab.is_visible():
        tab.click()
        return
    page.locator(".overflow-menu > button").first.click()
    page.locator(".overflow-dropdown button", has_text=view).click()


def sit(browser: Any, address: str, run: ExploredRun, name: str) -> list[Path]:
    """Take one sitting's photographs."""
    width, scheme, views = SITTINGS[name]
    context = browser.new_context(
        viewport={"width": width, "height": 850}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(address)
    page.wait_for_selector("#transformed img")
    taken = []
    for view in views:
        show(page, view)
        page.wait_for_timeout(500)
        USES[view](page, run)
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(1000)
        file = PICTURES / f"explorer-{view.lower()}{name}.png"
        page.screenshot(path=file, full_page=True)
        file.write_bytes(shrink(file))
        taken.append(file)
    context.close()
    return taken


def main() -> int:
    """Serve a run and photograph it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    wanted = parser.parse_args()
    run = ExploredRun.open(wanted.run)
    warm_up(run)
    with serving(run) as address, sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        taken = [file for name in SITTINGS for file in sit(browser, address, run, name)]
        browser.close()
    total = sum(file.stat().st_size for file in taken)
    print(f"{len(taken)} pictures, {total / 1e6:.2f} MB in {PICTURES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
