"""The one place where Python arguments are checked: what is usable is converted, the rest refused.

Every check names the argument, says what was received and what would be right. Checks that convert
(`check_tensor` makes a tensor of a list) return what to use.
"""

from transop.inputs.tensors import (
    as_batch,
    check_alike,
    check_coefficients,
    check_dense,
    check_dictionary,
    check_finite,
    check_floats,
    check_images,
    check_indices,
    check_latents,
    check_operators,
    check_paired,
    check_precise,
    check_shapes_fit,
    check_tensor,
    check_times,
)
from transop.inputs.values import (
    check_callable,
    check_choice,
    check_device,
    check_flag,
    check_generator,
    check_kind,
    check_names,
    check_number,
    check_path,
    check_seed,
    check_whole,
)

__all__ = [
    "as_batch",
    "check_alike",
    "check_callable",
    "check_choice",
    "check_coefficients",
    "check_dense",
    "check_device",
    "check_dictionary",
    "check_finite",
    "check_flag",
    "check_floats",
    "check_generator",
    "check_images",
    "check_indices",
    "check_kind",
    "check_latents",
    "check_names",
    "check_number",
    "check_operators",
    "check_paired",
    "check_path",
    "check_precise",
    "check_seed",
    "check_shapes_fit",
    "check_tensor",
    "check_times",
    "check_whole",
]
