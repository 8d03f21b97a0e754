"""Layout of the view Run: curves, diagnostics, settings and environment."""

from html import escape

import gradio as gr

from transop.run import Run
from transop_app.explorer.html import curves, notice, table, without_folders
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views.events import QUICK, sentences
from transop_app.report import environment_rows, phase_results


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
    if run.findings:
        lines = (f"{phase.replace('_', ' ')}: {finding}" for phase, finding in run.findings)
        parts = [notice(line, tone="beyond") for line in lines]
    elif run.loss_curves:
        parts = [notice("Training noticed no sign of trouble.")]
    else:
        words = "The folder holds no metrics, so nothing is known about how training went."
        parts = [notice(words, tone="missing")]
    results = [
        f"<h3>{_title(phase)}</h3>{table(rows)}" for phase, rows in phase_results(run).items()
    ]
    for sections in (results, [_curve(*item) for item in run.loss_curves.items()]):
        inner = "".join(f"<section>{section}</section>" for section in sections)
        parts.append(f'<div class="tp-columns">{inner}</div>')
    return "".join([*parts, _setting(run)])


def _curve(phase: str, curve: tuple[list[float], list[float]]) -> str:
    steps, losses = curve
    is_logarithmic = min(losses) > 0 and max(losses) > 10 * min(losses)
    kind = " (logarithmic)" if is_logarithmic else ""
    title = f"{_title(phase)}: loss{kind} over steps"
    return curves(steps, [("loss", losses, False)], title=title, is_logarithmic=is_logarithmic)


def _setting(run: Run) -> str:
    """Show settings and environment, folded away."""
    file = run.folder.config_file
    text = notice("The folder holds no config.toml with settings.", tone="missing")
    if file.exists():
        settings = escape(without_folders(file.read_text("utf-8")))
        text = f'<pre class="tp-wide">{settings}</pre>'
        text = f"<details><summary>Settings</summary>{text}</details>"
    if rows := environment_rows(run):
        listed = table([(name, without_folders(value)) for name, value in rows])
        text += f"<details open><summary>Environment</summary>{listed}</details>"
    return text


def _title(phase: str) -> str:
    return escape(phase.replace("_", " ").capitalize())
