"""What some devices cannot compute."""

from torch import Tensor

_LACKS_LINEAR_ALGEBRA = ("mps",)


def where_supported(tensor: Tensor) -> Tensor:
    """Move a tensor to the CPU if its device lacks double precision and eigenvalues.

    Apple's MPS does. Results go back with ``.to(device)``.
    """
    return tensor.cpu() if tensor.device.type in _LACKS_LINEAR_ALGEBRA else tensor
