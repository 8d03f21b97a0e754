"""The layout of each view; what they show is computed in the folder above."""
