import json

import pytest
import torch

from transop.errors import ArtifactError, UserError
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators


@pytest.fixture
def model():
    torch.manual_seed(3)
    network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
    return ManifoldAutoencoder(
        network,
        TransportOperators(3, 4),
        latent_scale=2.5,
        sparsity_weight=0.01,
        coefficient_encoder=CoefficientEncoder(4, 3, hidden=(8,)),
        classifier=build_classifier("lenet", image_size=16, channels=1, n_classes=5),
        classifier_recipe={
            "network": "lenet",
            "numbers": {"image_size": 16, "channels": 1, "n_classes": 5},
        },
        phases=("autoencoder",),
    )


def images(n=3):
    return torch.rand(n, 1, 16, 16, generator=torch.Generator().manual_seed(1))


def test_latents_are_raw_latents_divided_by_the_latent_scale(model):
    x = images()
    with torch.no_grad():
        raw = model.autoencoder.encode(x)
    torch.testing.assert_close(model.encode(x), raw / 2.5)


def test_decoding_undoes_the_latent_scale(model):
    x = images()
    with torch.no_grad():
        expected = model.autoencoder(x)
    torch.testing.assert_close(model.reconstruct(x), expected)


def test_a_single_image_is_treated_like_a_batch_of_one(model):
    x = images()
    torch.testing.assert_close(model.encode(x[0]), model.encode(x)[0])
    assert model.decode(model.encode(x[0])).shape == (1, 16, 16)
    assert model.path(x[0], x[1], t=[0, 1, 2]).shape == (3, 1, 16, 16)
    assert model.path(x[:2], x[1:], t=[0, 1, 2]).shape == (2, 3, 1, 16, 16)
    assert model.coefficient_scales(x[0]).shape == (3,)
    assert model.infer(x[0], x[1]).coefficients.shape == (1, 3)


def test_a_path_starts_at_the_reconstruction_of_its_first_image(model):
    x = images()
    frames = model.path(x[:2], x[1:], t=[0.0, 1.0])
    torch.testing.assert_close(frames[:, 0], model.reconstruct(x[:2]))


def test_any_leading_axes_of_latents_are_kept(model):
    points = torch.randn(2, 5, 4)
    assert model.decode(points).shape == (2, 5, 1, 16, 16)
    assert model.classify_latents(points).shape == (2, 5, 5)
    assert model.transport(torch.zeros(2, 5, 3), points).shape == (2, 5, 4)


def test_results_do_not_depend_on_how_many_images_come_at_once(model):
    x = images(260)
    torch.testing.assert_close(model.encode(x)[250:], model.encode(x[250:]))


def test_an_empty_batch_gives_an_empty_batch(model):
    assert model.encode(images(3)[:0]).shape == (0, 4)


def test_networks_run_in_evaluation_mode_and_go_back_to_training(model):
    x = images()
    expected = model.encode(x)
    model.train()
    torch.testing.assert_close(model.encode(x), expected)
    assert model.autoencoder.training


def test_gradients_flow_only_when_asked_for(model):
    x = images().requires_grad_()
    assert not model.encode(x).requires_grad
    model.decode(model.encode(x, gradients=True), gradients=True).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.zeros(2, 1, 16, 16, dtype=torch.uint8), "uint8.*/ 255"),
        (torch.zeros(2, 3, 16, 16), r"\(2, 3, 16, 16\).*\(1, 16, 16\)"),
        (torch.zeros(16, 16), r"\(16, 16\)"),
        (torch.full((1, 16, 16), 255.0), "to 255"),
        (torch.full((1, 16, 16), float("nan")), "nan"),
    ],
)
def test_unsuitable_images_are_refused_with_the_remedy(model, bad, message):
    with pytest.raises(UserError, match=message):
        model.encode(bad)


def test_unequal_numbers_of_starts_and_ends_are_refused(model):
    with pytest.raises(UserError, match="2 starts but 3 ends"):
        model.infer(images(2), images(3))


def test_missing_parts_are_named():
    network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
    bare = ManifoldAutoencoder(network, TransportOperators(3, 4))
    with pytest.raises(UserError, match="coefficient encoder"):
        bare.coefficient_scales(images())
    with pytest.raises(UserError, match="classifier"):
        bare.classify(images())
    with pytest.raises(UserError, match="5 dimensions but the autoencoder has 4"):
        ManifoldAutoencoder(network, TransportOperators(3, 5))


def test_a_saved_model_gives_the_same_numbers(model, tmp_path):
    model.save_pretrained(tmp_path / "m")
    again = ManifoldAutoencoder.from_pretrained(tmp_path / "m")
    x = images()
    assert again.config() == model.config()
    assert torch.equal(again.operators.weight, model.operators.weight)
    torch.testing.assert_close(again.encode(x), model.encode(x))
    torch.testing.assert_close(again.classify(x), model.classify(x))
    torch.testing.assert_close(again.coefficient_scales(x), model.coefficient_scales(x))


def test_a_classifier_of_the_users_own_is_never_imported_on_loading(model, tmp_path):
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 5))
    model.classifier, model.classifier_recipe = own, {"factory": "os:abort"}
    model.save_pretrained(tmp_path)
    assert ManifoldAutoencoder.from_pretrained(tmp_path).classifier is None
    fresh = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 5))
    again = ManifoldAutoencoder.from_pretrained(tmp_path, classifier=fresh)
    torch.testing.assert_close(again.classify(images()), model.classify(images()))


def test_a_description_that_lags_behind_the_weights_is_ignored(model, tmp_path):
    model.save_pretrained(tmp_path)
    old = (tmp_path / "config.json").read_text()
    model.latent_scale = 7.0
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(old)  # as if the power went between the two files
    assert ManifoldAutoencoder.from_pretrained(tmp_path).latent_scale == 7.0


def test_damaged_newer_and_foreign_files_are_named(model, tmp_path):
    model.save_pretrained(tmp_path)
    config, weights = tmp_path / "config.json", tmp_path / "model.safetensors"
    good = config.read_text()
    config.write_text(json.dumps({**json.loads(good), "format_version": 99}))
    with pytest.raises(ArtifactError, match=r"config\.json.*99"):
        ManifoldAutoencoder.from_pretrained(tmp_path)
    config.write_text("{}")
    with pytest.raises(ArtifactError, match=r"config\.json"):
        ManifoldAutoencoder.from_pretrained(tmp_path)
    config.write_text(good)
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(ArtifactError, match=r"model\.safetensors"):
        ManifoldAutoencoder.from_pretrained(tmp_path)
    with pytest.raises(ArtifactError, match="nowhere"):
        ManifoldAutoencoder.from_pretrained(tmp_path / "nowhere")


def test_the_hub_is_asked_for_names_that_are_no_folders(model, tmp_path, monkeypatch):
    import huggingface_hub

    model.save_pretrained(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(tmp_path))
    assert ManifoldAutoencoder.from_pretrained("owner/name").latent_scale == 2.5
