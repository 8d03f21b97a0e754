"""The flow itself: transport, paths, arc length, stability, the dictionary and its prior."""

from transop.errors import TensorError
from transop.operators.blocks import block_size, block_slices
from transop.operators.derivatives import (
    data_gradient,
    differentiate_data_term,
    transport_jacobian,
)
from transop.operators.dictionary import DictionaryError, TransportOperators
from transop.operators.laplace import (
    laplace_from_uniform,
    laplace_kl,
    sample_laplace,
    sample_moves,
)
from transop.operators.series import bound_norm, build_generator
from transop.operators.stability import eigenvalues, largest_real_part
from transop.operators.transport import TRANSPORT_METHODS, transport, transport_path

__all__ = [
    "TRANSPORT_METHODS",
    "DictionaryError",
    "TensorError",
    "TransportOperators",
    "block_size",
    "block_slices",
    "bound_norm",
    "build_generator",
    "data_gradient",
    "differentiate_data_term",
    "eigenvalues",
    "laplace_from_uniform",
    "laplace_kl",
    "largest_real_part",
    "sample_laplace",
    "sample_moves",
    "transport",
    "transport_jacobian",
    "transport_path",
]
