"""The explorer in a real browser."""

import re
import time
import urllib.request
import zipfile

import numpy as np
import pytest
from PIL import Image

from transop_app.explorer import ExploredRun
from transop_app.explorer.path import warm_up
from transop_app.explorer.server import serving
from transop_app.explorer.uploads import LARGEST_FILE

pytestmark = pytest.mark.browser

# Something that every view shows of a whole run.
SIGNS = {
    "Transform": "#transformed img",
    "Path": "#path-end-image img",
    "Map": "#map circle",
    "Invariance": "#heat button",
    "Augment": "#augment-files button",
    "Run": "#run-facts svg",
}
# What a run may lack, and what each view says about it.
LACKS = {
    "encoder": {
        "Transform": "no coefficient encoder, so no slider knows how far",
        "Map": "No scales: this run has no coefficient encoder",
        "Invariance": "No map of invariances: this run has no coefficient encoder",
        "Augment": "moves are drawn from the fixed prior",
    },
    "classifier": {"Transform": "No class probabilities: this run has no classifier"},
    "labels": {"Transform": "these images have no labels"},
    "images": {
        "Transform": "images cannot be shown",
        "Path": "images cannot be shown",
        "Map": "The map needs them",
        "Invariance": "The map of invariances needs them",
        "Run": "no config.toml",
    },
}


@pytest.fixture(scope="module")
def address(full_run):
    run = ExploredRun.open(full_run)
    warm_up(run)  # compiling may outlast a browser's patience on a busy machine
    with serving(run) as served:
        yield served


@pytest.fixture(scope="module")
def bare_address(make_run):
    with serving(ExploredRun.open(make_run(**dict.fromkeys(LACKS, False)))) as served:
        yield served


@pytest.fixture(scope="module")
def colour_address(make_run):
    with serving(ExploredRun.open(make_run(channels=3))) as served:
        yield served


def wait_until(statement, seconds=90):
    end = time.monotonic() + seconds
    while not statement():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def moved_picture(page):
    return page.locator("#transformed img").nth(1).get_attribute("src")


def press(page, key, times=1):
    for _ in range(times):
        page.keyboard.press(key)


def test_every_view_works_without_internet_and_asks_nothing_of_the_outside(address, visit):
    page = visit(address)
    for view, sign in SIGNS.items():
        show(page, view)
        page.wait_for_selector(f"{sign} >> visible=true")
    assert page.asked == []
    assert page.failures == []


def test_the_served_page_loads_nothing_from_outside(address):
    html = urllib.request.urlopen(address).read().decode()
    # Gradio's own remarks for search engines name its home; browsers load none of them.
    html = re.sub(r"<meta[^>]*>", "", html)
    loaded = re.findall(r'(?:src|href|url\()\s*[=:]?\s*["\']?(https?://[^"\')\s]+)', html)
    assert [url for url in loaded if not url.startswith(address.rstrip("/"))] == []
    assert "fonts.googleapis" not in html


def test_a_slider_moves_the_picture_by_keyboard_and_is_marked(address, visit):
    page = visit(address)
    before = moved_picture(page)
    slider = page.locator(".tp-operator").first
    slider.locator("input[type=range]").focus()
    press(page, "ArrowRight", 40)
    wait_until(lambda: "Beyond" in page.locator("#marks").inner_text())
    assert moved_picture(page) != before
    assert slider.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.click("#reset")
    wait_until(lambda: moved_picture(page) == before)
    assert "All sliders are within" in page.locator("#marks").inner_text()


def test_surprises_show_encoded_scales_beside_the_prior(address, visit):
    page = visit(address)
    page.click("#surprise")
    page.wait_for_selector("#surprises img")
    assert page.locator("#surprises img").count() == 16
    assert "fixed prior" in page.locator("#surprises").inner_text()


def test_the_next_image_of_a_class_can_be_picked(address, visit, full_run):
    page = visit(address)
    run = ExploredRun.open(full_run)
    other = run.class_names[(int(run.images.labels[0]) + 1) % 2]  # not the image shown first
    given = page.locator("#transformed img").first
    before = given.get_attribute("src")
    page.click("#transform-class input")
    page.get_by_role("option", name=other, exact=True).click()
    wait_until(lambda: given.get_attribute("src") != before)
    second = given.get_attribute("src")
    page.click("#transform-next")
    wait_until(lambda: given.get_attribute("src") != second)
    assert page.locator("#transform-number input").input_value() == "2"


def test_a_number_is_taken_as_it_is_typed_and_an_empty_field_is_no_mistake(address, visit):
    page = visit(address)
    given = page.locator("#transformed img").first
    before = given.get_attribute("src")
    number = page.locator("#transform-number input")
    number.fill("")
    number.fill("4")
    wait_until(lambda: given.get_attribute("src") != before)
    assert page.locator(".toast-body").count() == 0
    number.fill("4000")
    page.wait_for_selector(".toast-body:has-text('not between 1 and 30')")


def test_an_upload_is_taken_and_a_bad_one_refused_in_a_sentence(address, visit, tmp_path):
    page = visit(address)
    before = moved_picture(page)
    page.get_by_role("tab", name="Upload").first.click()
    good, bad, bomb = (tmp_path / name for name in ("good.png", "bad.png", "bomb.png"))
    Image.fromarray(np.tile(np.arange(40, dtype=np.uint8) * 6, (40, 1))).save(good)
    bad.write_bytes(b"no picture")
    Image.new("1", (20_000, 20_000)).save(bomb)
    chooser = page.locator("input[type=file]").first
    chooser.set_input_files(good)
    wait_until(lambda: moved_picture(page) != before)
    taken = moved_picture(page)
    for file, words in ((bad, "it is no picture"), (bomb, "decompression bomb")):
        chooser.set_input_files(file)
        page.wait_for_selector(f".toast-body:has-text('{words}')")
    assert moved_picture(page) == taken


def test_a_file_that_is_too_large_is_refused_and_the_page_goes_on(address, visit, tmp_path):
    page = visit(address)
    before = moved_picture(page)
    page.get_by_role("tab", name="Upload").first.click()
    large = tmp_path / "large.png"
    with large.open("wb") as stream:
        stream.truncate(LARGEST_FILE + 1)
    page.locator("input[type=file]").first.set_input_files(large)
    page.wait_for_selector("#transform-upload :text('larger than 20 MB')")
    assert moved_picture(page) == before
    page.click("#surprise")
    page.wait_for_selector("#surprises img")


def test_views_are_reached_by_keyboard_alone(address, visit):
    page = visit(address)
    page.get_by_role("tab", name="Map", exact=True).first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#map circle >> visible=true")


def draw(page, canvas):
    page.locator(canvas).scroll_into_view_if_needed()
    box = page.locator(canvas).bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()


def test_a_drawing_is_taken(address, visit):
    page = visit(address)
    before = moved_picture(page)
    page.get_by_role("tab", name="Draw").first.click()
    draw(page, "#transform-draw canvas")
    wait_until(lambda: moved_picture(page) != before)


def show(page, view):
    """Choose a view; on a narrow page its tab may be folded away."""
    tab = page.get_by_role("tab", name=view, exact=True).first
    if tab.is_visible():
        tab.click()
    else:
        page.locator(".overflow-menu > button").first.click()
        page.locator(".overflow-dropdown button", has_text=view).click()


def test_a_path_is_found_its_time_moved_and_offered_as_files(address, visit):
    page = visit(address)
    show(page, "Path")
    page.click("#find-path")
    page.wait_for_selector("#strips .tp-curve")
    assert page.locator("#strips img").count() == 2 * 17
    assert "latent length away" in page.locator("#path-facts").inner_text()
    frame = page.locator("#frame img").first
    before = frame.get_attribute("src")
    page.locator("#time input[type=range]").focus()
    press(page, "ArrowLeft", 16)
    wait_until(lambda: "t = 0.00" in page.locator("#frame").inner_text())
    assert frame.get_attribute("src") != before
    assert "Coefficients, strongest first" in page.locator("#path-facts").inner_text()
    for words, start in (("Save as GIF", b"GIF89a"), ("Save as PNG", b"\x89PNG")):
        with page.expect_download() as download:
            page.click(f"text={words}")
        assert download.value.path().read_bytes().startswith(start)


@pytest.mark.parametrize("width", [1200, 390])
def test_a_path_begins_at_an_upload_and_ends_at_a_drawing(address, visit, tmp_path, width):
    page = visit(address, width=width)
    show(page, "Path")
    start, end = (page.locator(f"#path-{key}-image img") for key in ("start", "end"))
    before = [image.get_attribute("src") for image in (start, end)]
    file = tmp_path / "stripes.png"
    Image.fromarray(np.tile(np.arange(40, dtype=np.uint8) * 6, (40, 1))).save(file)
    tabs = page.locator(".tp-end")
    tabs.nth(0).get_by_role("tab", name="Upload").click()
    tabs.nth(0).locator("input[type=file]").set_input_files(file)
    wait_until(lambda: start.get_attribute("src") != before[0])
    tabs.nth(1).get_by_role("tab", name="Draw").click()
    draw(page, "#path-end-draw canvas")
    wait_until(lambda: end.get_attribute("src") != before[1])
    page.click("#find-path")
    page.wait_for_selector("#strips img")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.failures == []


def test_a_point_of_the_map_is_chosen_by_mouse_and_by_keyboard(address, visit):
    page = visit(address)
    show(page, "Map")
    about = page.locator("#map-about")
    page.locator("#map circle[data-point='7']").click(force=True)
    wait_until(lambda: "image 8," in about.inner_text())
    wait_until(lambda: page.locator("#map-point input[type=range]").input_value() == "8")
    page.locator("#map-point input[type=range]").focus()
    press(page, "ArrowRight")
    wait_until(lambda: "image 9," in about.inner_text())
    page.click("#map-colour input")
    page.get_by_role("option", name="scale of operator").first.click()
    wait_until(lambda: "may go furthest" in page.locator("#map").inner_text())


def test_a_cell_of_the_invariance_map_shows_its_strip(address, visit):
    page = visit(address)
    show(page, "Invariance")
    assert page.locator("#heat button").count() == 3 * 10
    page.locator("#heat button[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("#tolerance img")
    assert page.locator("#tolerance img").count() == 9
    assert "A typical square moved by operator" in page.locator("#tolerance").inner_text()
    assert page.locator("#heat [aria-pressed=true]").get_attribute("data-cell") == "1,1"
    before = page.locator("#heat").inner_text()
    page.get_by_label("as in the paper").check()
    wait_until(lambda: page.locator("#heat").inner_text() != before)


def test_uploaded_images_are_augmented_and_bad_ones_named(address, visit, tmp_path):
    page = visit(address)
    show(page, "Augment")
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    Image.fromarray(np.tile(np.arange(40, dtype=np.uint8) * 6, (40, 1))).save(good)
    bad.write_bytes(b"no picture")
    page.locator("#augment-files input[type=file]").set_input_files([good, bad])
    page.wait_for_selector("#augment-files >> text=good")
    page.click("#augment-files button")
    page.wait_for_selector("#augmented img")
    text = page.locator("#augmented").inner_text()
    assert "6 copies of 1 image," in text
    assert "'bad.png' is not a readable image" in text
    with page.expect_download() as download:
        page.click("text=Save all as zip")
    with zipfile.ZipFile(download.value.path()) as archive:
        assert len(archive.namelist()) == 6


def test_the_run_view_tells_findings_and_settings(address, visit):
    page = visit(address)
    show(page, "Run")
    text = page.locator("#run-facts").inner_text()
    assert "operators: paths run away <fast>" in text
    page.click("text=Settings")
    assert "[data]" in page.locator("#run-facts pre").inner_text()


@pytest.mark.parametrize("part", LACKS)
def test_a_part_that_is_missing_is_explained_in_every_view_that_needs_it(make_run, visit, part):
    with serving(ExploredRun.open(make_run(**{part: False}))) as served:
        page = visit(served)
        for view in SIGNS:
            show(page, view)
            words = LACKS[part].get(view)
            if words:
                page.wait_for_selector(f":text('{words}') >> visible=true")
            else:
                page.wait_for_selector(f"{SIGNS[view]} >> visible=true")
        assert page.failures == []


def test_a_run_with_nothing_but_operators_still_moves_and_walks(bare_address, visit):
    page = visit(bare_address)
    page.click("#surprise")
    page.wait_for_selector("#surprises img")
    assert page.locator("#surprises img").count() == 8
    show(page, "Path")
    page.click("#find-path")
    page.wait_for_selector("#strips :text('No probability curve')")
    assert page.failures == []


def test_every_view_works_with_colour_images(colour_address, visit):
    page = visit(colour_address)
    assert page.locator("#transformed img").first.evaluate("e => e.naturalWidth") == 16
    page.get_by_role("tab", name="Draw").first.click()
    assert page.locator("#transform-draw input[type=color]").is_visible()
    for view, sign in SIGNS.items():
        show(page, view)
        page.wait_for_selector(f"{sign} >> visible=true")
    show(page, "Path")
    page.click("#find-path")
    page.wait_for_selector("#strips .tp-curve")
    assert page.failures == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_in_light_and_dark(address, visit, scheme):
    page = visit(address, width=390, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    rendering = page.locator("#transformed img").first
    assert rendering.evaluate("e => getComputedStyle(e).imageRendering") == "pixelated"
    assert rendering.bounding_box()["width"] >= 120
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(float, re.findall(r"[\d.]+", background)[:3])) / 3
    assert (brightness > 128) == (scheme == "light")
