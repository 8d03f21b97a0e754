"""Layout of the view Transform: one image, one slider per living operator."""

import secrets
from collections.abc import Sequence
from typing import Any

import gradio as gr
from torch import Tensor

from transop_app.explorer.html import bars, captioned, notice, strip
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.transform import Moved, Start, class_name, move, start_from, surprise
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views.choose import Chooser, first_image
from transop_app.explorer.views.events import PATIENT, QUICK, sentences

_IN_SIGHT = 10  # sliders shown at once; weaker operators wait under a heading


def lay_out(run: ExploredRun, uploads: Uploads) -> None:
    """Lay the view out inside the current tab."""
    with gr.Row(elem_id="transform-view"):
        with gr.Column(min_width=300):
            chooser = Chooser(run, uploads, "transform")
            begin = start_from(run, first_image(run))
            start = gr.State(begin)
            with gr.Column(elem_id="stage"):
                zeros = [0.0] * len(run.living_operators)
                first = _describe(run, begin, move(run, begin, zeros))
                shown = gr.HTML(first, elem_id="transformed")
                with gr.Row(elem_id="transform-buttons"):
                    reset = gr.Button("Reset", min_width=100, elem_id="reset")
                    sample = gr.Button(
                        "Surprise me", variant="primary", min_width=100, elem_id="surprise"
                    )
                samples = gr.HTML(elem_id="surprises")
        with gr.Column(min_width=300):
            marks = gr.HTML(_marks(run, begin, ()), elem_id="marks")
            sliders = _sliders(run)

    def show(begin: Start, values: Sequence[float]) -> tuple[str, str]:
        where = move(run, begin, values)
        return _describe(run, begin, where), _marks(run, begin, where.beyond)

    def moved(begin: Start, *values: float) -> tuple[str, str]:
        with sentences():
            return show(begin, values)

    def changed(image: Tensor) -> list[Any]:
        fresh = start_from(run, image)
        return [fresh, *show(fresh, zeros), "", *zeros]

    def surprised(begin: Start) -> str:
        with sentences():
            return _surprises(run, begin, secrets.randbelow(2**31))

    for slider in sliders:
        slider.input(moved, [start, *sliders], [shown, marks], **QUICK)
    chooser.connect(changed, [start, shown, marks, samples, *sliders])
    again = [shown, marks, *sliders]
    reset.click(lambda begin: [*moved(begin, *zeros), *zeros], start, again, **QUICK)
    sample.click(surprised, start, samples, **PATIENT)


def _sliders(run: ExploredRun) -> list[gr.Slider]:
    """Lay out a slider per operator; the weaker ones are folded away."""
    sliders = [_slider(run, position) for position in range(len(run.living_operators[:_IN_SIGHT]))]
    if rest := len(run.living_operators[_IN_SIGHT:]):
        with gr.Accordion(
            f"{rest} weaker operator{'s' * (rest > 1)}", open=False, elem_id="weaker"
        ):
            sliders += [_slider(run, _IN_SIGHT + position) for position in range(rest)]
    return sliders


def _slider(run: ExploredRun, position: int) -> gr.Slider:
    reach, operator = run.reach[position], run.living_operators[position]
    return gr.Slider(
        -reach,
        reach,
        value=0,
        step=reach / 50,
        label=f"Operator {operator}",
        elem_id=f"operator-{operator}",
        elem_classes="tp-operator",
        buttons=[],
    )


def _describe(run: ExploredRun, begin: Start, where: Moved) -> str:
    """Show the image as given and as moved, with what the classifier thinks."""
    pair = captioned(begin.image, "given") + captioned(where.image, "moved")
    parts = [f'<div class="tp-pair">{pair}</div>']
    if where.is_lost:
        words = "These coefficients carry the image out of all bounds; move a slider back."
        parts.append(notice(words, tone="beyond"))
    if where.probabilities is None:
        words = "No class probabilities: this run has no classifier (train its phase 'classifier')."
        parts.append(notice(words, tone="missing"))
    else:
        names = [class_name(run, k) for k in range(len(where.probabilities))]
        parts.append(bars(where.probabilities.tolist(), names))
    return "".join(parts)


def _marks(run: ExploredRun, begin: Start, beyond: tuple[int, ...]) -> str:
    """Say which sliders have left their range, and outline them."""
    if begin.allowed is None:
        return notice(
            "This run has no coefficient encoder, so no slider knows how far it may go here "
            "(train its phase 'coefficient_encoder').",
            tone="missing",
        )
    style = f"<style>{_bands(run, begin.allowed)}"
    if not beyond:
        return notice("All sliders are within the range that keeps identity.") + style + "</style>"
    names = ", ".join(str(m) for m in beyond)
    chosen = ",".join(f"#operator-{m}" for m in beyond)
    words = f"Beyond the range that keeps identity: operator {names}."
    style += f"{chosen}{{--tp-band:var(--tp-alarm);outline:2px solid var(--tp-alarm)!important}}"
    return notice(words, tone="beyond") + style + "</style>"


def _bands(run: ExploredRun, allowed: Sequence[float]) -> str:
    """Colour the part of each slider's track that keeps identity, and name its end.

    This is a style sheet because Gradio would keep a new slider in the session for every answer
    that changes the words under one.
    """
    rules = []
    for m, limit, reach in zip(run.living_operators, allowed, run.reach, strict=True):
        half = 50 * min(1.0, limit / reach)
        stops = f"--tp-from:{50 - half:.1f}%;--tp-to:{50 + half:.1f}%"
        words = f'--tp-words:"keeps identity within ±{limit:.2g}"'
        rules.append(f"#operator-{m}{{{stops};{words}}}")
    return "".join(rules)


def _surprises(run: ExploredRun, begin: Start, seed: int) -> str:
    """Show random moves with encoded scales above the same draws with the fixed prior."""
    found = surprise(run, begin, seed)
    rows = []
    if found.encoded is None:
        words = "No encoded scales: this run has no coefficient encoder."
        rows.append(notice(words, tone="missing"))
    else:
        rows.append(strip(found.encoded, found.names[0], "Sampled with encoded scales"))
    title = f"The same draws with the fixed prior, scale {run.model.prior_scale:g}"
    rows.append(strip(found.prior, found.names[1], title))
    return "".join(rows)
