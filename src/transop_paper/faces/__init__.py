"""Drawn faces: images whose every factor of change is known, free for everyone."""

from transop_paper.faces.celeba_files import write_faces
from transop_paper.faces.dataset import generate_faces, load_faces

__all__ = ["generate_faces", "load_faces", "write_faces"]
