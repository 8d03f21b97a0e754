"""The Laplace prior on coefficients: random moves drawn from it, and its divergence."""

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inputs import (
    check_alike,
    check_dense,
    check_generator,
    check_number,
    check_shapes_fit,
)
from transop.operators.transport import transport


def sample_moves(
    operators: Float[Tensor, "m d d"],
    points: Float[Tensor, "*batch d"],
    scales: Float[Tensor, "*batch m"],
    *,
    generator: torch.Generator | None = None,
    uniform: Float[Tensor, "*#batch m"] | None = None,
) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch m"]]:
    """Move points at random, as far along every operator as its scale allows.

    [AUGMENT]  z_hat = expm(sum_m c_m Psi_m) z, c_m drawn from a Laplace distribution of scale b_m

    Differentiable in ``points`` and ``scales``.

    Args:
        operators: the dictionary Psi.
        points: z, in scaled latent units.
        scales: b, the mean size of each coefficient at each point; not negative.
        generator: where the randomness comes from; a fixed seed if left out.
        uniform: draws from [0, 1) to use instead, for callers that keep or share the randomness.

    Returns:
        Where the points end, and the coefficients that took them there.
    """
    check_alike(operators=operators, points=points, scales=scales)
    if uniform is None:
        coefficients = sample_laplace(scales, generator=generator)
    else:
        coefficients = laplace_from_uniform(scales, uniform)
    coefficients = coefficients.to(points.device)
    return transport(operators, coefficients, points), coefficients


def sample_laplace(
    scale: Float[Tensor, "*shape"], *, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """Draw one coefficient per scale from a Laplace distribution centred on zero.

    [SAMPLE]  c = -h sgn(u) log(1 - 2|u|),  u ~ Unif(-1/2, 1/2)

    Differentiable in ``scale``: the randomness does not depend on it. Always finite.

    Args:
        scale: h, the mean absolute value of each coefficient; not negative.
        generator: where the randomness comes from; a fixed seed if left out.
    """
    check_alike(scale=scale)
    check_generator(generator)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    uniform = torch.rand(
        scale.shape, generator=generator, dtype=scale.dtype, device=generator.device
    )
    return laplace_from_uniform(scale, uniform.to(scale.device))


def laplace_from_uniform(
    scale: Float[Tensor, "*shape"], uniform: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """Turn uniform draws into draws from a Laplace distribution centred on zero, by [SAMPLE].

    For callers that keep or share the randomness itself. Always finite.

    Args:
        scale: h, the mean absolute value of each coefficient; not negative.
        uniform: draws from [0, 1); u of the equation is this minus 1/2.
    """
    check_alike(scale=scale, uniform=uniform)
    check_shapes_fit(scale=scale, uniform=uniform)
    centred = uniform - 0.5
    # The uniform draw includes its lower end, whose logarithm would be infinite.
    survival = (1 - 2 * centred.abs()).clamp_min(torch.finfo(scale.dtype).eps / 4)
    return -scale * centred.sign() * survival.log()


def laplace_kl(
    scale: Float[Tensor, "*shape"],
    prior_scale: float | Float[Tensor, "*#shape"],
) -> Float[Tensor, "*shape"]:
    """Measure the divergence between the encoder's Laplace distribution and the prior.

    [KL]  KL(q||p) = log(zeta / h) + h / zeta - 1

    Zero exactly when the scales agree, and elementwise: sum or average over operators yourself.

    Differs from the paper: its text names KL(q||p), but the formula printed there is KL(p||q) =
    log(h / zeta) + zeta / h - 1. This is what the text names; what is printed is this with h and
    zeta exchanged.

    Args:
        scale: h, the encoder's scales (q); positive.
        prior_scale: zeta, the prior's scale (p); positive.
    """
    check_alike(scale=scale)
    if isinstance(prior_scale, Tensor):
        check_dense(prior_scale=prior_scale)
        check_shapes_fit(scale=scale, prior_scale=prior_scale)
    else:
        prior_scale = check_number("prior_scale", prior_scale, "a positive number", open=True)
    ratio = scale / prior_scale
    return ratio - ratio.log() - 1
