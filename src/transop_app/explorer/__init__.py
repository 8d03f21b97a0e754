"""The page in the browser: look at what a run has learned and try it out.

Each view has two files: this folder computes its numbers and images without Gradio, and ``views``
lays them out. Only ``views``, ``page`` and ``server`` import Gradio. ``gate`` decides which
requests reach it.
"""

from transop_app.explorer.opened import ExploredRun

__all__ = ["ExploredRun"]
