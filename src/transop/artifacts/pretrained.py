"""The two files a model or a classifier is stored in, and where they may come from."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from transop.artifacts.state import load_state, read_json, save_state, write_json
from transop.errors import ArtifactError, UserError, shorten, show
from transop.extras import require

logger = logging.getLogger(__name__)

FORMAT_VERSION = 2  # 2: identity, and modules of the user's own; 1 is read as well
_FORMAT_KEYS = ("format", "format_version")


def write_pretrained(
    folder: Path, config: dict[str, Any], weights: dict[str, Tensor], *, kind: str = "model"
) -> None:
    """Write ``model.safetensors`` and ``config.json``, each in one step.

    The weights carry the description too, so a power cut between the two files is harmless.
    """
    config = {"format": f"transop-{kind}", "format_version": FORMAT_VERSION, **config}
    try:
        state = {"config": config, "weights": weights}
        save_state(folder / "model.safetensors", state, kind=kind)
        write_json(folder / "config.json", config)
    except OSError as error:
        raise ArtifactError(f"cannot write to '{folder}': {error.strerror}") from None


def read_pretrained(
    folder: str | Path, *, kind: str = "model"
) -> tuple[dict[str, Any], dict[str, Tensor], Path]:
    """Read a model's description, its weights and their file, from a folder or the hub."""
    path = _local_folder(folder)
    shown = read_json(path / "config.json")
    _check_version(shown, path / "config.json", kind)
    weights_file = path / "model.safetensors"
    state = load_state(weights_file, kind=kind)
    config = _check_version(state.get("config"), weights_file, kind)
    weights = state.get("weights")
    if not isinstance(weights, dict) or not all(isinstance(w, Tensor) for w in weights.values()):
        raise ArtifactError(f"'{weights_file}' is damaged: it holds no table of weights")
    if state["config"] != shown:
        logger.warning("'%s' does not describe the weights beside it; using theirs", path)
    for name, weight in weights.items():
        if weight.is_floating_point() and not bool(weight.isfinite().all()):
            raise ArtifactError(f"'{weights_file}' is useless: '{name}' holds NaN or infinity")
    return config, weights, weights_file


def upload(name: str, config: dict[str, Any], weights: dict[str, Tensor], **options: Any) -> str:
    """Upload a model to ``owner/name`` on the Hugging Face hub and give its address."""
    hub = _hub()
    with TemporaryDirectory() as folder:
        write_pretrained(Path(folder), config, weights)
        hub.create_repo(name, exist_ok=True, **options)
        hub.upload_folder(repo_id=name, folder_path=folder)
    return f"https://huggingface.co/{name}"


def _check_version(config: Any, path: Path, kind: str) -> dict[str, Any]:
    """Give the description without its format, which must be one we know."""
    if not isinstance(config, dict) or config.get("format") != f"transop-{kind}":
        raise ArtifactError(f"'{path}' does not describe a transop {kind}")
    version = config.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ArtifactError(
            f"'{path}' has format version {str(version)[:20]}, this transop reads 1 to "
            f"{FORMAT_VERSION}; upgrade transop to load it"
        )
    return {key: value for key, value in config.items() if key not in _FORMAT_KEYS}


def _local_folder(folder: str | Path) -> Path:
    if not isinstance(folder, str | Path):
        raise ArtifactError(f"folder = {show(folder)} is no path; pass a str or a pathlib.Path")
    missing = f"'{shorten(str(folder))}' is not a folder with config.json and model.safetensors"
    try:
        path = Path(folder)
        if path.is_dir():
            return path
        exists = path.exists()
    except (OSError, ValueError) as error:  # too long a name, a null byte
        raise ArtifactError(f"{missing}: {getattr(error, 'strerror', None) or error}") from None
    if exists or not isinstance(folder, str) or folder.count("/") != 1:
        raise ArtifactError(missing)
    try:
        found = _hub().snapshot_download(folder, allow_patterns=["*.json", "*.safetensors"])
    except (UserError, OSError, ValueError) as error:
        raise ArtifactError(f"{missing}, and not on the hub either: {error}") from None
    return Path(found)


def _hub() -> Any:
    require("hub", "sharing models")
    import huggingface_hub

    return huggingface_hub
