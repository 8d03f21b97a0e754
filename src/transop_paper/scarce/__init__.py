"""Scarce labels: a small network, ten labelled images per class, one augmentation or another."""
