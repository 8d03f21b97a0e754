"""The page carries everything inside itself and says what the run says."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from transop.artifacts import RunFolder, write_atomically, write_json
from transop.config import load_settings
from transop.errors import ArtifactError
from transop.plotting import image_grid
from transop_app.report import render_report, write_report
from transop_app.report.describe import duration
from transop_app.report.saved import About, save_figure

VOID = {"meta", "img", "br", "hr", "link", "input"}


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "a <run> & more")
    folder.path.mkdir()
    write_atomically(folder.config_file, load_settings("demo").to_toml().encode())
    write_json(folder.environment_file, {"seed": 3, "cores": 2, "packages": {"torch": "2.13"}})
    model = {
        "autoencoder": {"name": "mnist", "image_size": 28, "latent_dimension": 10, "width": 16},
        "operators": {"n_operators": 16},
        "latent_scale": 3.0,
        "sparsity_weight": 0.05,
    }
    write_json(folder.path / "config.json", model)
    folder.mark_finished("autoencoder", seconds=61.0, test_mse=0.0123)
    folder.mark_finished("operators", seconds=59.5, living=9)
    lines = [{"phase": "autoencoder", "step": s, "epoch": s, "loss": 1 / s} for s in range(1, 9)]
    lines.append({"phase": "operators", "step": 4, "finding": "steps <hurt>: lower the rate"})
    folder.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    picture = image_grid(np.zeros((1, 2, 1, 8, 8), np.float32))
    about = About("Magnitudes", "How large each operator is.")
    save_figure(picture, folder.figures / "magnitudes", about=about)
    return folder.path


class Tags(HTMLParser):
    """Collects addresses and checks that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href")]
        if tag == "img":
            assert dict(attributes).get("alt")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(page):
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_the_page_needs_nothing_outside_itself(run):
    page = render_report(run)
    addresses = parse(page).addresses
    assert addresses
    assert all(a.startswith(("data:image/png;base64,", "#")) for a in addresses)
    assert not re.search(r"url\(|@import|<script|<link", page)


def test_links_lead_to_sections_that_exist(run):
    page = render_report(run)
    for address in parse(page).addresses:
        if address.startswith("#"):
            assert f'id="{address[1:]}"' in page


def test_the_page_says_what_was_trained_how_long_and_how_well(run):
    text = " ".join(parse(render_report(run)).text)
    for part in ("digits", "2 min", "0.0123", "9 of 16", "28 x 28", "transport operators"):
        assert part in text, part


def test_before_there_is_a_model_the_settings_say_what_it_will_be(run):
    (run / "config.json").unlink()
    text = " ".join(parse(render_report(run)).text)
    assert f"width {load_settings('demo').autoencoder.width}" in text
    assert "None, width" not in text
    settings = load_settings("demo", ["autoencoder.factory=mine:make"])
    write_atomically(run / "config.toml", settings.to_toml().encode())
    assert "mine:make" in " ".join(parse(render_report(run)).text)


def test_warnings_and_missing_phases_are_told(run):
    text = " ".join(parse(render_report(run)).text)
    assert "steps <hurt>: lower the rate" in text
    assert "fine tuning, classifier, coefficient encoder" in text


def test_names_from_the_disk_cannot_break_the_page(run):
    page = render_report(run)
    assert "a &lt;run&gt; &amp; more" in page
    assert "<run>" not in page


def test_figures_stand_with_their_captions_and_the_curves_are_drawn(run):
    page = render_report(run)
    assert 'id="magnitudes"' in page
    assert 'id="training-curves"' in page
    assert page.count("<figcaption>") == 2


def test_a_run_without_figures_or_metrics_still_gets_a_page(run):
    (run / "metrics.jsonl").unlink()
    for path in (run / "figures").iterdir():
        path.unlink()
    page = render_report(run)
    assert "<figure" not in page
    assert "Nothing suspicious was noticed" in page


def test_pictures_show_the_words_beside_them_in_the_order_of_their_places(run):
    picture = image_grid(np.zeros((1, 2, 1, 8, 8), np.float32))
    for name, place in (("b", "Figure 10 of X"), ("c", "Figure 2 of X"), ("a", "")):
        save_figure(picture, run / "figures" / name, about=About(f"<{name}>", "read me", place))
    page = render_report(run)
    places = [page.index(f'id="{name}"') for name in ("a", "magnitudes", "c", "b")]
    assert places == sorted(places)
    text = " ".join(parse(page).text)
    assert all(part in text for part in ("<b>", "Figure 10 of X", "read me", "Magnitudes"))


def test_the_report_is_written_where_asked(run, tmp_path):
    assert write_report(run) == run / "report.html"
    elsewhere = write_report(run, tmp_path / "elsewhere.html")
    assert elsewhere.read_text() == (run / "report.html").read_text()


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(ArtifactError, match="is not a run folder"):
        render_report(tmp_path)


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "5 s"), (89, "89 s"), (600, "10 min"), (36000, "10.0 h")]
)
def test_durations_are_written_as_people_say_them(seconds, words):
    assert duration(seconds) == words
