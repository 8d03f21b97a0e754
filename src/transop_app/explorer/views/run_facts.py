"""Layout of the view Run: curves, diagnostics, settings and environment."""

from html import escape

import gradio as gr

from transop.report import environment_rows, phase_results
from transop.run import Run
from transop_app.explorer.html import curves, notice, table, without_folders
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views.events import QUICK, sentences


def lay_out(run: Run, _: Uploads) -> None:
    """Lay the view out inside the current tab."""
    with gr.Row():
        again = gr.Button("Read the folder again", size="sm", scale=0, elem_id="run-again")
    story = gr.HTML(describe(run), elem_id="run-facts")

    def read_again() -> str:
        with sentences():
            return describe(run)

    again.click(read_again, None, story, **QUICK)


def describe(run: Run) -> str:
    """Write what the folder says now: findings, results, curves and settings."""
    return "".join((_diagnostics(run), _results(run), _curves(run), _setting(run)))


def _diagnostics(run: Run) -> str:
    """Repeat what training noticed."""
    if run.findings:
        lines = (f"{phase.replace('_', ' ')}: {finding}" for phase, finding in run.findings)
        return "".join(notice(line, tone="beyond") for line in lines)
    if not run.loss_curves:
        words = "The folder holds no metrics, so nothing is known about how training went."
        return notice(words, tone="missing")
    return notice("Training noticed no sign of trouble.")


def _results(run: Run) -> str:
    parts = [
        f"<section><h3>{escape(_title(phase))}</h3>{table(rows)}</section>"
        for phase, rows in phase_results(run).items()
    ]
    return f'<div class="tp-columns">{"".join(parts)}</div>'


def _curves(run: Run) -> str:
    parts = []
    for phase, (steps, losses) in run.loss_curves.items():
        is_logarithmic = min(losses) > 0 and max(losses) > 10 * min(losses)
        kind = " (logarithmic)" if is_logarithmic else ""
        title = f"{_title(phase)}: loss{kind} over steps"
        line = [("loss", losses, False)]
        drawn = curves(steps, line, title=title, is_logarithmic=is_logarithmic)
        parts.append(f"<section>{drawn}</section>")
    return f'<div class="tp-columns">{"".join(parts)}</div>'


def _setting(run: Run) -> str:
    """Show settings and environment, folded away."""
    parts = []
    file = run.folder.config_file
    if file.exists():
        text = f'<pre class="tp-wide">{escape(without_folders(file.read_text("utf-8")))}</pre>'
        parts.append(f"<details><summary>Settings</summary>{text}</details>")
    else:
        parts.append(notice("The folder holds no config.toml with settings.", tone="missing"))
    if rows := environment_rows(run):
        text = table([(name, without_folders(value)) for name, value in rows])
        parts.append(f"<details open><summary>Environment</summary>{text}</details>")
    return "".join(parts)


def _title(phase: str) -> str:
    return phase.replace("_", " ").capitalize()
