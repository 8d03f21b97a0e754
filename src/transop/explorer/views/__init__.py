"""The layout of each view; what they show is computed in the folder above."""

from collections.abc import Callable

from transop.explorer.opened import ExploredRun
from transop.explorer.uploads import Uploads
from transop.explorer.views import augment, invariance, latent_map, path, run_facts, transform

# The name on the tab and the function that lays the view out inside it; the page keeps this order.
VIEWS: dict[str, Callable[[ExploredRun, Uploads], None]] = {
    "Transform": transform.lay_out,
    "Path": path.lay_out,
    "Map": latent_map.lay_out,
    "Invariance": invariance.lay_out,
    "Augment": augment.lay_out,
    "Run": run_facts.lay_out,
}

__all__ = ["VIEWS"]
