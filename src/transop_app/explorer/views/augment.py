"""Layout of the view Augment: images or a zip in, a contact sheet and a zip out."""

import gradio as gr

from transop_app.explorer.augment import MOST_COPIES, Augmented, augment_images
from transop_app.explorer.html import download, notice, picture
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.uploads import MOST_IMAGES, Uploads, read_collection
from transop_app.explorer.views.choose import file_field
from transop_app.explorer.views.events import PATIENT, sentences

_LISTED = 8


def lay_out(run: ExploredRun, uploads: Uploads) -> None:
    """Lay the view out inside the current tab."""
    if run.model.coefficient_encoder is None:
        words = (
            "This run has no coefficient encoder: moves are drawn from the fixed prior, "
            f"scale {run.model.prior_scale:g}, the same for every image."
        )
        gr.HTML(notice(words, tone="missing"))
    with gr.Row():
        with gr.Column(min_width=280):
            words = (
                "Choose images, or zips of images, or drop them here: "
                f"at most {MOST_IMAGES} images, 20 MB a file"
            )
            files = file_field("augment-files", words, button="Augment", zips=True)
        with gr.Column(min_width=280):
            copies = gr.Slider(1, MOST_COPIES, value=6, step=1, label="Copies of each image")
            multiplier = gr.Slider(0.1, 4, value=1, step=0.1, label="Multiply the scales by")
            seed = gr.Number(0, label="Seed", precision=0, minimum=0)
    result = gr.HTML(elem_id="augmented")

    def augmented(n_copies: float, factor: float, start: float | None, event: gr.EventData) -> str:
        with sentences():
            images, complaints = read_collection(
                uploads.take(getattr(event, "files", None)), run.model
            )
            if not images and complaints:
                return _complaints(complaints)
            found = augment_images(
                run,
                images,
                n_copies=int(n_copies),
                multiplier=float(factor),
                seed=abs(int(start or 0)),
            )
            return _complaints(complaints) + _describe(found)

    files.submit(augmented, [copies, multiplier, seed], result, **PATIENT)


def _describe(found: Augmented) -> str:
    """Say how many copies there are, offer them as files and show the first."""
    images = "1 image" if found.n_images == 1 else f"{found.n_images} images"
    words = f"{found.n_images * found.n_copies} copies of {images}, as the model draws them."
    if found.n_images > found.n_shown:
        words += f" The first {found.n_shown} are shown; the zip holds all."
    archive = download(found.archive, "application/zip", "augmented.zip", "Save all as zip")
    sheet = download(found.sheet, "image/png", "contact-sheet.png", "Save contact sheet")
    shown = picture(found.sheet, "image/png", "images and their copies", look="sheet")
    return f'{notice(words)}<div class="tp-saves">{archive}{sheet}</div>{shown}'


def _complaints(complaints: list[str]) -> str:
    """Name what was left out."""
    shown = "".join(notice(words, tone="beyond") for words in complaints[:_LISTED])
    more = len(complaints) - _LISTED
    return shown + (notice(f"and {more} more files left out", tone="beyond") if more > 0 else "")
