"""Layout of the view Run: curves, diagnostics, settings and environment."""

from __future__ import annotations

from html import escape

import gradio as gr

from transop.explorer.html import curves, notice, table, without_folders
from transop.explorer.opened import OpenRun
from transop.explorer.run_facts import RunFacts, read_facts
from transop.explorer.uploads import Uploads
from transop.explorer.views.events import QUICK, sentences


def lay_out(run: OpenRun, _: Uploads) -> None:
    """Lay the view out inside the current tab."""
    with gr.Row():
        again = gr.Button("Read the folder again", size="sm", scale=0, elem_id="run-again")
    story = gr.HTML(_story(read_facts(run)), elem_id="run-facts")

    def read_again() -> str:
        with sentences():
            return _story(read_facts(run))

    again.click(read_again, None, story, **QUICK)


def _story(facts: RunFacts) -> str:
    return "".join((_diagnostics(facts), _results(facts), _curves(facts), _setting(facts)))


def _diagnostics(facts: RunFacts) -> str:
    """Repeat what training noticed."""
    if facts.findings:
        return "".join(notice(words, tone="beyond") for words in facts.findings)
    if not facts.curves:
        words = "The folder holds no metrics, so nothing is known about how training went."
        return notice(words, tone="missing")
    return notice("Training noticed no sign of trouble.")


def _results(facts: RunFacts) -> str:
    parts = [
        f"<section><h3>{escape(_title(phase))}</h3>{table(rows)}</section>"
        for phase, rows in facts.results.items()
    ]
    return f'<div class="tp-columns">{"".join(parts)}</div>'


def _curves(facts: RunFacts) -> str:
    parts = []
    for phase, (steps, losses) in facts.curves.items():
        is_logarithmic = min(losses) > 0 and max(losses) > 10 * min(losses)
        kind = " (logarithmic)" if is_logarithmic else ""
        title = f"{_title(phase)}: loss{kind} over steps"
        line = [("loss", losses, False)]
        drawn = curves(steps, line, title=title, is_logarithmic=is_logarithmic)
        parts.append(f"<section>{drawn}</section>")
    return f'<div class="tp-columns">{"".join(parts)}</div>'


def _setting(facts: RunFacts) -> str:
    """Show settings and environment, folded away."""
    parts = []
    if facts.settings:
        text = f'<pre class="tp-wide">{escape(without_folders(facts.settings))}</pre>'
        parts.append(f"<details><summary>Settings</summary>{text}</details>")
    else:
        parts.append(notice("The folder holds no config.toml with settings.", tone="missing"))
    if facts.environment:
        text = table([(name, without_folders(value)) for name, value in facts.environment])
        parts.append(f"<details open><summary>Environment</summary>{text}</details>")
    return "".join(parts)


def _title(phase: str) -> str:
    return phase.replace("_", " ").capitalize()
