"""Put the views together into one page."""

from collections.abc import Callable
from html import escape

import gradio as gr

from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views import augment, invariance, latent_map, path, run_facts, transform

_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
_MONO = ("ui-monospace", "Menlo", "Consolas", "monospace")

# The name on the tab and the function that lays the view out inside it; the page keeps this order.
VIEWS: dict[str, Callable[[ExploredRun, Uploads], None]] = {
    "Transform": transform.lay_out,
    "Path": path.lay_out,
    "Map": latent_map.lay_out,
    "Invariance": invariance.lay_out,
    "Augment": augment.lay_out,
    "Run": run_facts.lay_out,
}


def build_page(run: ExploredRun, uploads: Uploads) -> gr.Blocks:
    """Lay out a page about a run, one tab per view."""
    page = gr.Blocks(title=f"transop explorer: {run.name}", analytics_enabled=False)
    with page:
        gr.HTML(_heading(run))
        with gr.Tabs():
            for view, lay_out in VIEWS.items():
                with gr.Tab(view, id=view):
                    lay_out(run, uploads)
    return page


def _heading(run: ExploredRun) -> str:
    """Say in one line which run the page shows."""
    model = run.model
    channels, size, _ = model.image_shape
    living, total = len(run.living_operators), model.operators.n_operators
    facts = (
        f"{living} of {total} operators alive in {model.latent_dimension} latent dimensions; "
        f"{'grey' if channels == 1 else 'colour'} images of {size} x {size} pixels"
    )
    return f'<h1>{escape(run.name)}</h1><p class="tp-facts">{facts}</p>'


def look() -> gr.themes.Base:
    """Choose colours and fonts: blue, so that the alarm's red stands apart; no fonts to load."""
    theme = gr.themes.Default(primary_hue="blue", font=_FONTS, font_mono=_MONO)
    return theme.set(
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        slider_color="*primary_600",
    )
