"""The commands ``transop paper`` and ``transop bench``."""
