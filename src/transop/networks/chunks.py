"""Run a network on many rows, a few at a time."""

from collections.abc import Callable

import torch
from torch import Tensor

# Rows through a network at once. Larger chunks leave the cache, and the system hands memory for
# their maps out anew every time, which can take longer than the computation.
CHUNK = 128


def in_chunks(function: Callable[[Tensor], Tensor], inputs: Tensor, n_rows: int = CHUNK) -> Tensor:
    """Apply a network to a few rows at a time, images laid out channels-last."""
    outputs = []
    for start in range(0, max(1, len(inputs)), n_rows):
        chunk = inputs[start : start + n_rows]
        if chunk.ndim == 4:
            chunk = chunk.contiguous(memory_format=torch.channels_last)
        outputs.append(function(chunk).contiguous())
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)
