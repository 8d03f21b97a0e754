"""The two files a model is stored in, and where they may come from."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from transop.artifacts import load_state, read_json, save_state, write_json
from transop.errors import ArtifactError, UserError

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1


def write_pretrained(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write ``model.safetensors`` and ``config.json``, each in one step.

    The weights carry the description too, so a power cut between the two files is harmless.
    """
    config = {"format": "transop-model", "format_version": FORMAT_VERSION, **config}
    try:
        state = {"config": config, "weights": weights}
        save_state(folder / "model.safetensors", state, kind="model")
        write_json(folder / "config.json", config)
    except OSError as error:
        raise ArtifactError(f"cannot write to '{folder}': {error.strerror}") from None


def read_pretrained(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor], Path]:
    """Read a model's description and weights from a folder or ``owner/name`` on the hub.

    Returns:
        The description, the weights, and the file they came from.
    """
    path = _local_folder(folder)
    shown = read_json(path / "config.json")
    _check(shown, path / "config.json")
    weights_file = path / "model.safetensors"
    state = load_state(weights_file, kind="model")
    config = state.get("config")
    _check(config, weights_file)
    if config != shown:
        logger.warning("'%s' does not describe the weights beside it; using theirs", path)
    return dict(config or {}), state["weights"], weights_file


def upload(name: str, config: dict[str, Any], weights: dict[str, Tensor], **options: Any) -> str:
    """Upload a model to ``owner/name`` on the Hugging Face hub and give its address."""
    hub = _hub()
    with TemporaryDirectory() as folder:
        write_pretrained(Path(folder), config, weights)
        hub.create_repo(name, exist_ok=True, **options)
        hub.upload_folder(repo_id=name, folder_path=folder)
    return f"https://huggingface.co/{name}"


def _check(config: Any, path: Path) -> None:
    if not isinstance(config, dict) or config.get("format") != "transop-model":
        raise ArtifactError(f"'{path}' does not describe a transop model")
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ArtifactError(
            f"'{path}' has format version {version}, this transop reads up to {FORMAT_VERSION}; "
            "upgrade transop to load it"
        )


def _local_folder(folder: str | Path) -> Path:
    path = Path(folder)
    if path.is_dir():
        return path
    missing = f"'{folder}' is not a folder with config.json and model.safetensors"
    if path.exists() or not isinstance(folder, str) or folder.count("/") != 1:
        raise ArtifactError(missing)
    try:
        found = _hub().snapshot_download(folder, allow_patterns=["*.json", "*.safetensors"])
    except (UserError, OSError, ValueError) as error:
        raise ArtifactError(f"{missing}, and not on the hub either: {error}") from None
    return Path(found)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(
            "sharing models needs the package huggingface_hub: pip install 'transop[hub]'"
        ) from None
    return huggingface_hub
