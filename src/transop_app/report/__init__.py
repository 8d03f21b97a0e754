"""A run folder becomes one self-contained HTML page."""

from transop.extras import require

require("report", "the report")  # before the files below import jinja2 and matplotlib

from transop_app.report.describe import environment_rows, phase_results
from transop_app.report.write import render_report, write_report

__all__ = ["environment_rows", "phase_results", "render_report", "write_report"]
