"""Tensors on a GPU, without a GPU: a stand-in that refuses what Apple's MPS cannot do."""

import pytest
import torch

from transop.evaluation import spread_covered
from transop.inference import gauss_newton, infer_coefficients
from transop.learning import mean_length
from transop.learning.step import real_part_excess, real_part_gradient
from transop.model import ManifoldAutoencoder
from transop.networks.modules import _principal
from transop.operators import eigenvalues, largest_real_part, transport, transport_path
from transop.training.distillation import _samples

MPS = torch.device("mps")
ORIGINAL_TO = torch.Tensor.to
LACKING = (
    torch.linalg.eig,
    torch.linalg.eigvals,
    torch.linalg.matrix_exp,
    torch.linalg.cholesky_ex,
    torch.Tensor.double,
    torch.Tensor.numpy,
)


INDEXING = ("__getitem__", "__setitem__", "copy_")  # what takes tensors of two devices


def plain(value):
    if isinstance(value, FakeMps):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(torch.Tensor)
    if isinstance(value, (tuple, list)):
        return type(value)(plain(part) for part in value)
    return value


def wrapped(value):
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeMps):
        return value.as_subclass(FakeMps)
    if type(value) in (tuple, list):
        return type(value)(wrapped(part) for part in value)
    return value


class FakeMps(torch.Tensor):
    """Says it is on MPS, and computes on the CPU what MPS could compute."""

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function == torch.Tensor.device.__get__:
            return MPS
        if function == torch.Tensor.cpu:
            return plain(args[0])
        if function in LACKING:
            raise NotImplementedError(f"{function.__name__} is not implemented for MPS")
        if function.__name__ == "to":  # torch looks it up by name
            return cls._to(*args, **kwargs)
        if kwargs.get("dtype") == torch.float64:
            raise TypeError("MPS has no float64")
        if function.__name__ not in INDEXING and any(
            isinstance(value, torch.Tensor) and not isinstance(value, FakeMps) and value.ndim
            for value in args
        ):
            raise RuntimeError(f"{function.__name__}: tensors are on the CPU and on MPS")
        if kwargs.get("device") == MPS:
            del kwargs["device"]
        with torch._C.DisableTorchFunctionSubclass():
            return wrapped(function(*plain(args), **{k: plain(v) for k, v in kwargs.items()}))

    @staticmethod
    def _to(tensor, target):
        if target == torch.device("cpu"):
            return plain(tensor)
        if target == torch.float64:
            raise TypeError("MPS has no float64")
        with torch._C.DisableTorchFunctionSubclass():
            other = getattr(target, "dtype", tensor.dtype)  # of a tensor to be like
            kind = target if isinstance(target, torch.dtype) else other
            return wrapped(plain(tensor).to(kind))


@pytest.fixture
def on_mps(monkeypatch):
    """Let ordinary tensors move to the stand-in; return the function that moves them."""

    def to(tensor, *target, **named):
        if target == (MPS,):
            return wrapped(tensor)
        return ORIGINAL_TO(tensor, *target, **named)

    monkeypatch.setattr(torch.Tensor, "to", to)
    return wrapped


def problem():
    generator = torch.Generator().manual_seed(0)
    operators = torch.randn(3, 4, 4, generator=generator)
    operators /= operators.norm(dim=(1, 2), keepdim=True)
    z0 = torch.randn(10, 4, generator=generator)
    return operators, z0, z0 + 0.3 * torch.randn(10, 4, generator=generator)


def test_the_stand_in_refuses_what_mps_cannot_do():
    tensor = wrapped(torch.eye(3))
    assert tensor.device == MPS
    for function in (torch.linalg.eigvals, torch.linalg.matrix_exp, torch.Tensor.double):
        with pytest.raises(NotImplementedError):
            function(tensor)
    assert isinstance(tensor + tensor, FakeMps)
    assert not isinstance(tensor.cpu(), FakeMps)


@pytest.mark.usefixtures("as_users_run_it")
def test_gpu_tensors_are_solved_by_the_compiled_kernel_and_come_back(on_mps, monkeypatch):
    expected = infer_coefficients(*problem(), sparsity_weight=0.05, restarts=2)
    monkeypatch.setattr(gauss_newton, "solve_batched", None)  # the other back end is not asked
    found = infer_coefficients(*map(on_mps, problem()), sparsity_weight=0.05, restarts=2)
    assert found.coefficients.device == MPS
    assert found.converged.device == MPS
    assert torch.equal(found.coefficients.cpu(), expected.coefficients)
    assert bool(found.converged.all())


@pytest.mark.usefixtures("as_users_run_it")
def test_the_torch_back_end_can_be_chosen_for_gpu_tensors(on_mps, monkeypatch):
    expected = infer_coefficients(*problem(), sparsity_weight=0.05, backend="torch")
    monkeypatch.setattr(gauss_newton, "_solve_compiled", None)
    found = infer_coefficients(*map(on_mps, problem()), sparsity_weight=0.05, backend="torch")
    assert found.coefficients.device == MPS
    torch.testing.assert_close(found.coefficients.cpu(), expected.coefficients)


@pytest.mark.usefixtures("as_users_run_it")
def test_eigenvalues_and_exponentials_run_where_they_can(on_mps):
    operators, points, _ = problem()
    coefficients = torch.full((10, 3), 0.1)
    moved = [on_mps(tensor) for tensor in (operators, coefficients, points)]
    torch.testing.assert_close(largest_real_part(moved[0]).cpu(), largest_real_part(operators))
    assert eigenvalues(moved[0]).device == MPS
    for method in ("action", "dense"):
        there = transport(*moved, method=method)
        assert there.device == MPS
        torch.testing.assert_close(
            there.cpu(), transport(operators, coefficients, points, method=method)
        )
    far = torch.tensor([0.0, 500.0])
    path = transport_path(moved[0], moved[1], moved[2], on_mps(far))
    torch.testing.assert_close(path.cpu(), transport_path(operators, coefficients, points, far))


DOUBLE = {
    "the scale of vectors": lambda operators, z0, z1: mean_length(z0),
    "real parts": lambda operators, z0, z1: real_part_excess(operators, 0.1),
    "their gradient": lambda operators, z0, z1: real_part_gradient(operators, 0.1),
    "the spread that moves cover": lambda operators, z0, z1: spread_covered(z0, z1),
    "principal directions": lambda operators, z0, z1: _principal(z0)[0],
}


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("compute", DOUBLE.values(), ids=DOUBLE)
def test_what_needs_double_precision_runs_where_there_is_some(compute, on_mps):
    found = compute(*map(on_mps, problem()))
    torch.testing.assert_close(plain(found), compute(*problem()))


class Seeds:
    def generator(self, *names):
        return torch.Generator().manual_seed(0)


@pytest.mark.usefixtures("as_users_run_it")
def test_what_a_distilled_classifier_learns_from_lies_where_the_latents_are(on_mps):
    operators, points, _ = problem()
    drawn = [_samples(Seeds(), *pair, 0.1, 20, "samples") for pair in
             ((operators, points), (on_mps(operators), on_mps(points)))]  # fmt: skip
    torch.testing.assert_close(drawn[1].cpu(), drawn[0])


@pytest.mark.usefixtures("as_users_run_it")
def test_a_model_that_was_moved_finds_the_images_it_remembers(on_mps):
    images = problem()[1]
    model = ManifoldAutoencoder.from_modules(torch.nn.Identity(), images=images, n_operators=2)
    points = model.encode(images[[3, 1]])
    model.autoencoder.origin = on_mps(model.autoencoder.origin)
    assert torch.equal(model._nearest(on_mps(points)), images[[3, 1]])
