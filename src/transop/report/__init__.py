"""A run folder becomes one self-contained HTML page."""

from transop.report.write import render_report, write_report

__all__ = ["render_report", "write_report"]
