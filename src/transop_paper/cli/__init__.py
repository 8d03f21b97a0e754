"""The commands ``transop paper``, ``bench``, ``baseline`` and ``faces``."""
