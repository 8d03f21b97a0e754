import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import transop
from transop.augment import Guard, TransportAugment
from transop.errors import UserError
from transop.operators import transport


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_shape_and_type_are_kept(model, images, dtype):
    augment = TransportAugment(model)
    for given in (images.to(dtype), images[0].to(dtype), images[:0].to(dtype)):
        moved = augment(given)
        assert moved.shape == given.shape
        assert moved.dtype == dtype
        assert not moved.requires_grad


def test_a_move_is_what_its_coefficients_say(model, images, seeded):
    augment = TransportAugment(model, generator=seeded())
    moved = augment(images)
    coefficients = augment.params["coefficients"][:, 0]
    expected = model.decode(model.transport(coefficients, model.encode(images)))
    torch.testing.assert_close(moved, expected)
    assert (moved - model.reconstruct(images)).abs().max() > 1e-3


def test_coefficients_have_the_encoded_scale_times_the_multiplier(model, images, seeded):
    many = images[:1].expand(20_000, -1, -1, -1)
    augment = TransportAugment(model, multiplier=0.25, generator=seeded())
    augment(many)
    measured = augment.params["coefficients"].abs().mean((0, 1))
    torch.testing.assert_close(
        measured, 0.25 * model.coefficient_scales(images[0]), rtol=0.05, atol=0
    )


def test_the_prior_has_one_scale_for_all(model, images, seeded):
    many = images[:1].expand(20_000, -1, -1, -1)
    augment = TransportAugment(model, source="prior", prior_scale=0.2, generator=seeded())
    augment(many)
    measured = augment.params["coefficients"].abs().mean((0, 1))
    torch.testing.assert_close(measured, torch.full((3,), 0.2), rtol=0.05, atol=0)


def test_a_model_without_an_encoder_uses_its_prior(model, images):
    model.coefficient_encoder = None
    assert TransportAugment(model).source == "prior"
    with pytest.raises(UserError, match="coefficient_encoder"):
        TransportAugment(model, source="encoder")


def test_params_replay_the_same_moves(model, images, seeded):
    augment = TransportAugment(model, p=0.5, n_steps=3, generator=seeded())
    first = augment(images)
    params = copy.deepcopy(augment.params)
    assert 0 < params["apply"].sum() < len(images)
    assert not torch.equal(augment(images), first)
    torch.testing.assert_close(augment(images, params), first)
    torch.testing.assert_close(augment(images[2], {k: v[2:3] for k, v in params.items()}), first[2])


def test_the_same_generator_gives_the_same_images(model, images, seeded):
    first, second, other = (
        TransportAugment(model, generator=seeded(seed))(images) for seed in (5, 5, 6)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_global_randomness_is_used_without_a_generator(model, images):
    augment = TransportAugment(model)
    torch.manual_seed(0)
    first = augment(images)
    torch.manual_seed(0)
    assert torch.equal(augment(images), first)
    assert not torch.equal(augment(images), first)


def test_images_that_are_not_chosen_are_untouched(model, images, seeded):
    augment = TransportAugment(model, p=0.5, generator=seeded(1))
    moved = augment(images)
    chosen = augment.params["apply"]
    assert torch.equal(moved[~chosen], images[~chosen])
    assert all(not torch.equal(a, b) for a, b in zip(moved[chosen], images[chosen], strict=True))
    assert torch.equal(TransportAugment(model, p=0.0)(images), images)


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_same_on_batch_does_the_same_to_every_image(model, images, seeded, p):
    augment = TransportAugment(model, p=p, same_on_batch=True, n_steps=2, generator=seeded())
    for _ in range(4):
        augment(images)
        coefficients = augment.params["coefficients"]
        assert torch.equal(coefficients, coefficients[:1].expand_as(coefficients))
        assert len(augment.params["apply"].unique()) == 1


def test_a_walk_reads_the_scale_again_at_every_step(model, images, seeded):
    augment = TransportAugment(model, n_steps=2, generator=seeded())
    augment(images)
    coefficients = augment.params["coefficients"]
    uniform = torch.rand(6, generator=(g := seeded())), torch.rand(6, 2, 3, generator=g)
    unit = -(uniform[1] - 0.5).sign() * (1 - 2 * (uniform[1] - 0.5).abs()).log()
    latents = model.encode(images)
    torch.testing.assert_close(coefficients[:, 0], model.scales_at(latents) * unit[:, 0])
    latents = model.transport(coefficients[:, 0], latents)
    torch.testing.assert_close(coefficients[:, 1], model.scales_at(latents) * unit[:, 1])


def test_a_step_beyond_the_range_of_numbers_is_not_taken(model, images, seeded):
    with torch.no_grad():
        model.operators.weight.mul_(20)
    augment = TransportAugment(model, multiplier=8, n_steps=3, generator=seeded())
    for _ in range(3):
        assert torch.isfinite(augment(images)).all()


def test_the_residual_returns_the_image_when_nothing_moves(model, images):
    augment = TransportAugment(model, multiplier=0.0, residual=1.0)
    torch.testing.assert_close(augment(images), images, atol=1e-6, rtol=0)
    half = TransportAugment(model, multiplier=0.0, residual=0.5)
    torch.testing.assert_close(half(images), (images + model.reconstruct(images)) / 2)


def test_it_stands_in_a_sequential_and_keeps_the_model_frozen(model, images):
    network = nn.Sequential(TransportAugment(model), nn.Flatten(), nn.Linear(256, 3))
    before = copy.deepcopy(model.state_dict())
    network.train()
    assert not any(module.training for module in model.modules())
    optimiser = torch.optim.SGD(network.parameters(), 0.1, weight_decay=0.1)
    network(images).square().sum().backward()
    optimiser.step()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_it_follows_a_kornia_sequence(model, images):
    kornia = pytest.importorskip("kornia.augmentation")
    pipeline = nn.Sequential(TransportAugment(model), kornia.RandomAffine(10.0))
    assert pipeline(images).shape == images.shape


class Augmented(Dataset):
    """The same image over and over, augmented in the worker."""

    def __init__(self, augment, image):
        self.augment, self.image = augment, image

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.augment(self.image)


@pytest.mark.parametrize("with_generator", [True, False])
def test_workers_of_a_loader_draw_different_numbers(model, images, seeded, with_generator):
    augment = TransportAugment(model, generator=seeded() if with_generator else None)
    data = Augmented(augment, images[0])

    def load():
        loader = DataLoader(
            data,
            batch_size=1,
            num_workers=2,
            multiprocessing_context="fork",
            generator=torch.Generator().manual_seed(7),
        )
        return torch.cat(list(loader))

    first = load()
    assert len({tuple(image.flatten().tolist()) for image in first}) == 8
    torch.testing.assert_close(load(), first)


def test_it_can_be_copied_and_printed(model, images, seeded):
    augment = TransportAugment(model, p=0.5, guard=0.2, generator=seeded())
    other = copy.deepcopy(augment)
    assert torch.equal(other(images), augment(images))
    assert "p=0.5" in repr(augment)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (torch.zeros(2, 1, 28, 28), r"\(1, 16, 16\)"),
        (torch.zeros(2, 3, 16, 16), r"\(1, 16, 16\)"),
        (torch.zeros(16, 16), r"\(1, 16, 16\)"),
        (torch.full((2, 1, 16, 16), 255.0), r"\[0, 1\]"),
        (torch.full((2, 1, 16, 16), -1.0), r"\[0, 1\]"),
        (torch.full((2, 1, 16, 16), torch.nan), "remove NaN"),
        (torch.zeros(2, 1, 16, 16, dtype=torch.uint8), "uint8"),
    ],
)
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_wrong_images_are_named(model, given, part, p):
    with pytest.raises(UserError, match=part):
        TransportAugment(model, p=p)(given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"p": 1.5},
        {"p": float("nan")},
        {"multiplier": -1.0},
        {"prior_scale": 0.0},
        {"n_steps": 0},
        {"residual": 2.0},
        {"source": "oracle"},
        {"guard": 1.5},
    ],
)
def test_wrong_settings_are_named(model, wrong):
    with pytest.raises(UserError, match="threshold" if "guard" in wrong else next(iter(wrong))):
        TransportAugment(model, **wrong)


def test_params_of_another_batch_are_refused(model, images):
    augment = TransportAugment(model)
    augment(images)
    with pytest.raises(UserError, match="6 images"):
        augment(images[:2], augment.params)
    with pytest.raises(UserError, match="'coefficients'"):
        augment(images, {"apply": torch.ones(6, dtype=torch.bool)})


def test_it_is_a_public_name():
    assert transop.TransportAugment is TransportAugment


@pytest.mark.gpu
def test_a_batch_on_the_gpu_stays_there(model, images):
    device = "cuda" if torch.cuda.is_available() else "mps"
    augment = TransportAugment(model.to(device), guard=0.1)
    assert augment(images.to(device)).device.type == device


class Bright(nn.Module):
    """Calls an image 1 if it is brighter than a level, else 0."""

    def __init__(self, level):
        super().__init__()
        self.level = level

    def forward(self, images):
        bright = images.flatten(1).mean(1)
        return torch.stack([torch.zeros_like(bright), 50 * (bright - self.level)], 1)


@pytest.fixture
def judged(model, images):
    """A classifier that half of the reconstructions lie on either side of, and their names."""
    with torch.no_grad():
        model.autoencoder.decoder[-2].weight.mul_(30)
    pictures = model.reconstruct(images)
    judge = Bright(pictures.flatten(1).mean(1).median() + 1e-4)
    return judge, judge(pictures).argmax(1)


def test_a_guard_lets_nothing_pass_that_changes_its_name(model, images, seeded, judged):
    judge, names = judged
    wild = {"source": "prior", "prior_scale": 2.0}
    loose = TransportAugment(model, generator=seeded(), **wild)
    assert (judge(loose(images)).argmax(1) != names).any()
    guard = Guard(judge, 0.0, attempts=4)
    augment = TransportAugment(model, guard=guard, generator=seeded(), **wild)
    moved = augment(images, labels=names)
    kept = augment.params["apply"]
    assert kept.any()
    assert torch.equal(judge(moved[kept]).argmax(1), names[kept])
    assert torch.equal(moved[~kept], images[~kept])
    assert augment.params["draws"].max() > 1
    torch.testing.assert_close(augment(images, augment.params), moved)


def test_a_guard_that_refuses_everything_leaves_the_images_alone(model, images, seeded):
    guard = Guard(lambda x: torch.zeros(len(x), 3), 0.9, attempts=2, shortenings=1)
    augment = TransportAugment(model, guard=guard, generator=seeded())
    assert torch.equal(augment(images), images)
    assert not augment.params["apply"].any()
    assert augment.params["draws"].tolist() == [4] * 6


def test_a_refused_move_ends_as_a_shorter_one(model, images, seeded):
    latents = model.encode(images)

    def near(points):
        """Class 0 while a point is close to where some image is, class 1 farther away."""
        distance = torch.cdist(points, latents).amin(1)
        return torch.stack([torch.zeros_like(distance), distance - 0.02 * latents.norm()], 1)

    guard = Guard(near, 0.0, attempts=0, shortenings=12, domain="latent")
    augment = TransportAugment(model, multiplier=3, guard=guard, generator=seeded())
    augment(images)
    drawn = TransportAugment(model, multiplier=3, generator=seeded())
    drawn(images)
    ratio = augment.params["coefficients"] / drawn.params["coefficients"]
    halvings = -torch.log2(ratio[augment.params["apply"]])
    torch.testing.assert_close(halvings, halvings.round())
    assert halvings.max() >= 1


def test_labels_overrule_the_guards_opinion(model, images, seeded):
    guard = Guard(lambda x: torch.tensor([[0.0, 9.0, 0.0]]).expand(len(x), 3), 0.5)
    augment = TransportAugment(model, guard=guard, generator=seeded())
    augment(images, labels=torch.tensor([1, 1, 1, 0, 0, 2]))
    assert augment.params["apply"].tolist() == [True] * 3 + [False] * 3
    augment(images)
    assert augment.params["apply"].all()
    with pytest.raises(UserError, match="6 images"):
        augment(images, labels=[1, 2])


def test_a_guarded_batch_moves_together_or_not_at_all(model, images, seeded, judged):
    judge, names = judged
    guard = Guard(judge, 0.0, attempts=20)
    augment = TransportAugment(
        model, same_on_batch=True, source="prior", prior_scale=1.0, guard=guard, generator=seeded()
    )
    for _ in range(3):
        moved = augment(images, labels=names)
        assert len(augment.params["apply"].unique()) == 1
        if augment.params["apply"][0]:
            assert torch.equal(judge(moved).argmax(1), names)


def test_the_models_own_classifier_guards_by_default(model, images):
    assert TransportAugment(model, guard=0.0)(images).shape == images.shape
    model.classifier = None
    with pytest.raises(UserError, match="no classifier"):
        TransportAugment(model, guard=0.5)


def test_a_guard_never_enters_training_mode():
    guard = Guard(nn.Dropout(0.5))
    nn.Sequential(guard).train()
    assert not guard.classifier.training


@pytest.mark.usefixtures("as_users_run_it")
def test_an_exported_model_moves_images_the_same_way(model, images, seeded, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    augment = TransportAugment(model, p=0.5, n_steps=2, generator=seeded())
    expected = augment(images)
    params = {name: augment.params[name] for name in ("apply", "coefficients")}
    path = tmp_path / "augment.onnx"
    batch = torch.export.Dim("batch", min=2)
    shapes = {"images": {0: batch}, "params": {name: {0: batch} for name in params}}
    torch.onnx.export(
        augment.eval(),
        (images,),
        path,
        kwargs={"params": params},
        dynamo=True,
        dynamic_shapes=shapes,
        verbose=False,
    )
    session = runtime.InferenceSession(path)
    names = [given.name for given in session.get_inputs()]
    values = [value.numpy() for value in (images, *params.values())]
    (moved,) = session.run(None, dict(zip(names, values, strict=True)))
    np.testing.assert_allclose(moved, expected.numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_run_it")
def test_an_exported_model_draws_for_itself(model, images, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = tmp_path / "augment.onnx"
    augment = TransportAugment(model).eval()
    torch.onnx.export(augment, (images,), path, dynamo=True, verbose=False)
    session = runtime.InferenceSession(path)
    name = session.get_inputs()[0].name
    first, second = (session.run(None, {name: images.numpy()})[0] for _ in range(2))
    assert np.abs(first - second).max() > 1e-4
    with pytest.raises(Exception, match="export with guard=None"):
        torch.export.export(TransportAugment(model, guard=0.5).eval(), (images,))


def test_the_fixed_series_is_exact_for_large_moves():
    generator = torch.Generator().manual_seed(0)
    operators = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    coefficients = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    points = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    fixed = transport(operators, coefficients, points, n_terms=12, n_steps=8)
    torch.testing.assert_close(fixed, transport(operators, coefficients, points), rtol=1e-6, atol=0)
