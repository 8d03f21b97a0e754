"""Measurements a user can repeat: one file per subject, both contenders in one run."""
