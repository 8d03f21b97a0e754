"""The page in the browser: what was learned, to look at and to steer; calls public functions only.

Each view has two files: its numbers in this folder, without Gradio, and its layout in ``views``.
Gradio itself is imported by ``views``, ``page``, ``visitors`` and ``server`` alone.
"""

from transop.explorer.opened import ExploredRun

__all__ = ["ExploredRun"]
