"""What the explorer's views compute, without a page."""

import base64
import tracemalloc
import zipfile
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from transop.errors import DataError, UserError
from transop_app.explorer import ExploredRun, html
from transop_app.explorer.transform import move, start_from, surprise
from transop_app.explorer.uploads import (
    LARGEST_FILE,
    MOST_IMAGES,
    Uploads,
    read_bytes,
    read_collection,
    read_drawing,
)


@pytest.fixture(scope="module")
def run(full_run):
    return ExploredRun.open(full_run)


@pytest.fixture(scope="module")
def bare(make_run):
    """A run with nothing but operators."""
    return ExploredRun.open(make_run(encoder=False, classifier=False, labels=False, images=False))


def png(side=20):
    buffer = BytesIO()
    Image.fromarray(np.full((side, side), 128, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def test_living_operators_come_strongest_first(run):
    strength = run.model.operators.magnitudes().detach()[run.living_operators]
    assert torch.equal(strength, strength.sort(descending=True).values)


def test_examples_of_a_class_have_its_label(run):
    for label in range(3):
        assert set(run.images.labels[run.rows(label)]) == {label}


def test_an_example_that_does_not_exist_is_refused_with_the_range(run):
    with pytest.raises(UserError, match="not between 1 and 30"):
        run.example(None, 31)


def test_a_run_without_its_images_opens_and_says_why(bare):
    assert bare.images is None
    assert "config.toml" in bare.missing
    assert len(bare.reach) == len(bare.living_operators)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a run folder"):
        ExploredRun.open(tmp_path / "nowhere")


def test_sliders_at_zero_show_the_reconstruction(run):
    image = run.example(None, 1)
    moved = move(run, start_from(run, image), [0.0] * len(run.living_operators))
    np.testing.assert_allclose(moved.image, run.model.reconstruct(image).numpy(), atol=1e-5)
    assert moved.beyond == ()


def test_a_slider_moves_its_own_operator(run):
    start = start_from(run, run.example(None, 1))
    values = [0.0] * len(run.living_operators)
    values[1] = 0.7
    coefficients = torch.zeros(run.model.operators.n_operators)
    coefficients[run.living_operators[1]] = 0.7
    expected = run.model.decode(run.model.transport(coefficients, torch.tensor(start.latent)))
    np.testing.assert_allclose(move(run, start, values).image, expected.numpy(), atol=1e-5)


def test_a_slider_is_marked_only_once_it_leaves_its_range(run):
    start = start_from(run, run.example(None, 1))
    values = [0.0] * len(run.living_operators)
    values[2] = -0.99 * start.allowed[2]
    assert move(run, start, values).beyond == ()
    values[2] = -1.01 * start.allowed[2]
    assert move(run, start, values).beyond == (run.living_operators[2],)


def test_probabilities_sum_to_one(run):
    moved = move(run, start_from(run, run.example(0, 1)), [0.1] * len(run.living_operators))
    assert moved.probabilities.sum() == pytest.approx(1, abs=1e-5)


def test_a_move_out_of_all_bounds_is_called_lost(run):
    moved = move(run, start_from(run, run.example(0, 1)), [1e6] * len(run.living_operators))
    assert moved.is_lost
    assert np.isfinite(moved.image).all()


def test_a_bare_run_moves_images_without_ranges_or_probabilities(bare):
    start = start_from(bare, torch.rand(1, 16, 16))
    moved = move(bare, start, [0.1] * len(bare.living_operators))
    assert (start.allowed, moved.probabilities, moved.beyond) == (None, None, ())
    assert surprise(bare, start, 0).encoded is None


def test_surprises_repeat_with_their_seed_and_differ_between_scales(run):
    start = start_from(run, run.example(None, 1))
    first, second = surprise(run, start, 5), surprise(run, start, 5)
    np.testing.assert_array_equal(first.encoded, second.encoded)
    assert not np.array_equal(first.encoded, surprise(run, start, 6).encoded)
    assert not np.array_equal(first.encoded, first.prior)


def test_an_upload_is_cropped_and_resized(run):
    assert read_bytes(png(), "a.png", run.model).shape == (1, 16, 16)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no picture", "it is no picture"), (png()[:45], "not a readable image")],
    ids=["text", "half a picture"],
)
def test_bad_uploads_are_refused_in_a_sentence(run, content, words):
    with pytest.raises(DataError, match=words) as caught:
        read_bytes(content, "a.png", run.model)
    assert "0x" not in str(caught.value)


def test_a_decompression_bomb_is_refused(run):
    buffer = BytesIO()
    Image.new("1", (20_000, 20_000)).save(buffer, "PNG")
    assert len(buffer.getvalue()) < 1_000_000
    with pytest.raises(DataError, match="bomb"):
        read_bytes(buffer.getvalue(), "bomb.png", run.model)


def test_an_upload_that_is_too_large_is_refused(run):
    with pytest.raises(DataError, match="larger than 20 MB"):
        read_bytes(bytes(LARGEST_FILE + 1), "large.png", run.model)


@pytest.mark.parametrize("listed", [None, [], "x", [3], [{}], [{"name": 3, "token": ["x"]}]])
def test_files_that_never_came_are_not_found(listed):
    with pytest.raises(DataError, match=r"arrive"):
        Uploads().take(listed)


def test_uploads_are_known_by_bare_names():
    uploads = Uploads()
    for name, bare in (("C:\\x\\tom.png", "tom.png"), ("/a/b/", "b"), ("..", ".."), ("", "upload")):
        token = uploads.reserve(1)
        uploads.fill(token, b"x")
        assert uploads.take([{"name": name, "token": token}]) == [(bare, b"x")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('source = "/home/tom/data/x.npz"', 'source = ".../x.npz"'),
        ("'C:\\Users\\tom\\x.npz' is missing", "'...\\x.npz' is missing"),
        ("either/or, 3/4 and a/b/c stay", "either/or, 3/4 and a/b/c stay"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("~/data/x", ".../x"),
    ],
)
def test_the_servers_folders_are_not_shown(text, expected):
    assert html.without_folders(text) == expected


def test_a_drawing_becomes_an_image(run):
    text = "data:image/png;base64," + base64.b64encode(png(280)).decode()
    assert read_drawing(text, run.model).shape == (1, 16, 16)


@pytest.mark.parametrize("text", [None, 7, "http://elsewhere", "data:image/png;base64,!!"])
def test_what_is_no_drawing_is_refused(run, text):
    with pytest.raises(DataError, match="drawing"):
        read_drawing(text, run.model)


def test_a_zip_gives_its_images_and_a_sentence_for_each_bad_one(run):
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../a.png", png())
        archive.writestr("sub/a.png", png())
        archive.writestr("bad.png", b"no picture")
        archive.writestr("readme.txt", b"hello")
    images, complaints = read_collection([("many.zip", file.getvalue())], run.model)
    assert list(images) == ["a.png", "a-2.png"]
    assert len(complaints) == 1
    assert "bad.png" in complaints[0]


def test_a_zip_member_that_unpacks_without_end_is_left_out(run):
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.png", bytes(LARGEST_FILE + 10))
        archive.writestr("fine.png", png())
    images, complaints = read_collection([("bomb.zip", file.getvalue())], run.model)
    assert list(images) == ["fine.png"]
    assert "more than allowed" in complaints[0]


def test_a_zip_of_many_that_together_unpack_without_end_is_stopped(run):
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fine.png", png())
        for number in range(12):
            archive.writestr(f"bomb-{number}.png", bytes(LARGEST_FILE))
    tracemalloc.start()
    images, complaints = read_collection([("bombs.zip", file.getvalue())], run.model)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(images) == ["fine.png"]
    assert complaints[-1] == "'bombs.zip' unpacks to more than 200 MB; split it"
    assert most < 5 * LARGEST_FILE


def test_only_so_many_images_are_taken_at_a_time(run):
    files = [(f"{number}.png", png()) for number in range(MOST_IMAGES + 2)]
    images, complaints = read_collection(files, run.model)
    assert len(images) == MOST_IMAGES
    assert complaints == [f"'{MOST_IMAGES}.png' and what follows: only {MOST_IMAGES} at a time"]


def test_a_damaged_member_of_a_zip_is_named_and_the_others_are_taken(run):
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("damaged.png", png(200) * 20)
        archive.writestr("fine.png", png())
    content = bytearray(file.getvalue())
    content[51:66] = bytes(range(240, 255))  # behind the first member's header
    images, complaints = read_collection([("many.zip", bytes(content))], run.model)
    assert list(images) == ["fine.png"]
    assert complaints[0].startswith("'damaged.png' in 'many.zip' cannot be unpacked")


def test_a_file_that_only_claims_to_be_a_zip_is_refused(run):
    assert read_collection([("fake.zip", b"no zip")], run.model)[1] == [
        "'fake.zip' is not a readable zip: File is not a zip file"
    ]


def test_names_cannot_smuggle_markup_into_the_page():
    text = html.bars([0.5], ["<script>x</script>"]) + html.notice("<b>")
    assert "<script" not in text
    assert "<b>&lt;" not in text
    assert "&lt;script" in text


def test_a_picture_in_the_page_is_the_image_bit_by_bit():
    image = np.random.default_rng(0).integers(0, 256, (3, 5, 5)) / 255
    decoded = np.asarray(Image.open(BytesIO(html.png(image)))).transpose(2, 0, 1)
    np.testing.assert_array_equal(decoded, np.rint(image * 255))


def test_signed_bars_grow_to_either_side_of_the_middle():
    text = html.bars([0.5, -1.0], ["a", "b"], unit="signed")
    assert "width:25.0%;margin-left:50.0%" in text
    assert "width:50.0%;margin-left:0.0%" in text


def test_curves_draw_every_line_and_survive_gaps():
    lines = [("a", [0.0, np.nan, 1.0], False), ("b", [1.0, 0.5, 0.0], True)]
    text = html.curves([0, 1, 2], lines, title="t")
    assert text.count("<polyline") == 2
    assert "nan" not in text
