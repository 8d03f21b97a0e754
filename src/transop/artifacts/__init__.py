"""What runs and models leave on disk: run folders, states, model files, large arrays."""

from transop.artifacts.mapped import map_rows, write_rows
from transop.artifacts.pretrained import read_pretrained, write_pretrained
from transop.artifacts.run_folder import RunFolder, describe_environment
from transop.artifacts.state import load_state, read_json, save_state, write_atomically, write_json

__all__ = [
    "RunFolder",
    "describe_environment",
    "load_state",
    "map_rows",
    "read_json",
    "read_pretrained",
    "save_state",
    "write_atomically",
    "write_json",
    "write_pretrained",
    "write_rows",
]
