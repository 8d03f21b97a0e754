import torch

from transop.training.perceptual import BLOCKS, PerceptualError

CPU = torch.device("cpu")


def faces_like(n, seed=0):
    """Give smooth random images, 32 pixels wide."""
    noise = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(noise, 32, mode="bicubic").clamp(0, 1)


def test_the_same_images_have_no_error_and_the_weight_is_a_factor():
    images = faces_like(4)
    assert float(PerceptualError(1.0, CPU)(images, images)) == 0.0
    single, double = (float(PerceptualError(w, CPU)(1 - images, images)) for w in (1.0, 2.0))
    assert single > 0
    assert double == torch.tensor(2 * single)


def test_blur_costs_more_than_an_even_offset_of_the_same_squared_error():
    images = faces_like(4)
    blurred = torch.nn.functional.avg_pool2d(images, 5, 1, 2, count_include_pad=False)
    size = (blurred - images).square().mean().sqrt()
    error = PerceptualError(1.0, CPU)
    assert float(error(blurred, images)) > 2 * float(error(images + size, images))


def test_gradients_reach_the_decoded_images_of_the_first_quarter_alone():
    images = faces_like(8)
    decoded = faces_like(8, seed=1).requires_grad_()
    PerceptualError(1.0, CPU)(decoded, images).backward()
    reached = decoded.grad.abs().amax(dim=(1, 2, 3)) > 0
    assert reached.tolist() == [True] * 2 + [False] * 6


def test_grey_images_and_single_images_have_an_error_too():
    images = faces_like(1)[:, :1]
    assert torch.isfinite(PerceptualError(1.0, CPU)(1 - images, images))


def test_maps_halve_the_size_as_the_published_network_does():
    error = PerceptualError(1.0, CPU)
    sizes = [one.shape[-1] for one in error._maps(faces_like(2))]
    assert len(sizes) == len(BLOCKS)
    assert sizes == [16, 16, 8, 4]
