"""What a stored model says about itself: checked before anything is built or stored."""

import json
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transop.artifacts import load_state, save_state, write_json
from transop.errors import ArtifactError, UserError
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators
from transop_app import cli

OLD = Path(__file__).parent / "model_0_1"


@pytest.fixture
def stored(tmp_path):
    torch.manual_seed(3)
    numbers = {"image_size": 16, "channels": 1, "n_classes": 10}
    model = ManifoldAutoencoder(
        build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4),
        TransportOperators(3, 4),
        coefficient_encoder=CoefficientEncoder(4, 3, hidden=(8,)),
        classifier=build_classifier("lenet", **numbers),
        classifier_recipe={"network": "lenet", "numbers": numbers},
        phases=("autoencoder", "operators"),
        class_names=tuple("abcdefghij"),
    )
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def describe_anew(folder, change):
    """Change a stored description and sign it again, as someone who means harm would."""
    state = load_state(folder / "model.safetensors", kind="model")
    config = json.loads(json.dumps(state["config"]))
    change(config)
    save_state(folder / "model.safetensors", {**state, "config": config}, kind="model")
    write_json(folder / "config.json", config)


def put(*path, value):
    def change(config):
        for part in path[:-1]:
            config = config[part]
        config[path[-1]] = value

    return change


def drop(key):
    return lambda config: config.pop(key)


HOSTILE = {
    "ten million operators": put("operators", "n_operators", value=10**7),
    "many dimensions": put("operators", "dimension", value=20_000),
    "a wide network": put("autoencoder", "width", value=3_000),
    "half a channel": put("autoencoder", "width", value=1.5),
    "a width that is no machine number": put("autoencoder", "width", value=10**20),
    "a width below one": put("autoencoder", "width", value=-3),
    "a name nobody knows": put("autoencoder", "name", value="../x"),
    "a size that the network does not take": put("autoencoder", "image_size", value=500),
    "a network that is a word": put("autoencoder", value="conv"),
    "a word as scale": put("latent_scale", value="x"),
    "an infinite scale": put("latent_scale", value=float("inf")),
    "a scale of zero": put("latent_scale", value=0.0),
    "a scale that overflows": put("latent_scale", value=1e-300),
    "no number as scale": put("latent_scale", value=float("nan")),
    "a true scale": put("latent_scale", value=True),
    "no number as prior": put("prior_scale", value=float("nan")),
    "a negative weight": put("sparsity_weight", value=-1.0),
    "a classifier that is a list": put("classifier", value=[]),
    "a classifier that is a number": put("classifier", value=7),
    "a classifier of a million classes": put("classifier", "numbers", "n_classes", value=10**6),
    "an unknown classifier": put("classifier", "network", value="os.system"),
    "a classifier with further arguments": put("classifier", "numbers", "code", value="x"),
    "an unknown domain": put("classifier_domain", value="sound"),
    "three names for ten classes": put("class_names", value=["a", "b", "c"]),
    "names that are numbers": put("class_names", value=[1] * 10),
    "a word as multiplier": put("coefficient_encoder", "scale_multiplier", value="x"),
    "a very long layer": put("coefficient_encoder", "hidden", value=[10**6]),
    "a hundred layers": put("coefficient_encoder", "hidden", value=[8] * 100),
    "another number of operators": put("coefficient_encoder", "n_operators", value=4),
    "a negative version": put("format_version", value=-1),
    "a version of zero": put("format_version", value=0),
    "a version that is a word": put("format_version", value="1"),
    "a version of 5,000 digits": put("format_version", value=10**4000),
    "blocks that do not divide": put("operators", "n_blocks", value=3),
    "something unheard of": put("hook", value="os:system"),
    "no operators": drop("operators"),
    "no classifier entry": drop("classifier"),
    "no phases": drop("phases"),
    "phases that are a word": put("phases", value="operators"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_an_impossible_description_is_refused_before_memory_is_taken(stored, change, capfd):
    describe_anew(stored, change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ArtifactError) as caught:
        ManifoldAutoencoder.from_pretrained(stored)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000  # kilobytes; the hostile sizes would take gigabytes
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    images = [str(stored / "a.png"), str(stored / "b.png")]
    assert cli.run(["path", str(stored), *images]) == 2
    assert "Traceback" not in capfd.readouterr().err


def header_of(folder, **metadata):
    """Write metadata that safetensors accepts and we never wrote."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    known = {"format": "transop", "format_version": "1", "kind": "model", "state": "{}"}
    save_file(tensors, file, metadata={**known, "digest": "0", **metadata})


DAMAGED = {
    "no JSON": {"state": "{"},
    "a list": {"state": "[]"},
    "a number": {"state": "3"},
    "a tensor that is not there": {"state": '{"config": {}, "weights": {"__tensor__": "no"}}'},
    "pairs that are none": {"state": '{"__keyed__": [[1]]}'},
    "pairs that are a number": {"state": '{"__keyed__": 3}'},
    "a name that is a list": {"state": '{"weights": {"__tensor__": [1]}}'},
    "a tuple that is a number": {"state": '{"__tuple__": 3}'},
    "5,000 brackets": {"state": "[" * 5000 + "]" * 5000},
    "5,000 digits": {"state": '{"step": ' + "9" * 5000 + "}"},
    "no weights": {"state": '{"config": {"format": "transop-model", "format_version": 1}}'},
    "a superscript as version": {"format_version": "²"},
    "a version of 5,000 digits": {"format_version": "9" * 5000},
    "a negative version": {"format_version": "-1"},
    "another kind": {"kind": "checkpoint"},
}


@pytest.mark.parametrize("metadata", DAMAGED.values(), ids=DAMAGED)
def test_damaged_metadata_is_an_error_of_the_file(stored, metadata):
    header_of(stored, **metadata)
    with pytest.raises(ArtifactError) as caught:
        ManifoldAutoencoder.from_pretrained(stored)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' + "9" * 5000 + "}", "\x00", '"x"'])
def test_a_config_file_that_is_no_description_is_named(stored, text):
    (stored / "config.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"config\.json"):
        ManifoldAutoencoder.from_pretrained(stored)


def test_weights_that_are_no_numbers_are_refused(stored):
    state = load_state(stored / "model.safetensors", kind="model")
    state["weights"]["operators.weight"][0, 0, 0] = float("nan")
    save_state(stored / "model.safetensors", state, kind="model")
    with pytest.raises(ArtifactError, match=r"operators\.weight.*NaN"):
        ManifoldAutoencoder.from_pretrained(stored)


@pytest.mark.parametrize("folder", ["x" * 5000, "a/" + "x" * 5000, "nul\x00l", 3, None, ["m"]])
def test_a_path_that_cannot_exist_is_refused(folder):
    with pytest.raises(ArtifactError) as caught:
        ManifoldAutoencoder.from_pretrained(folder)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("name", "value"),
    [("latent_scale", float("inf")), ("prior_scale", -1.0), ("class_names", ("a",))],
)
def test_what_could_not_be_read_back_is_not_stored(stored, tmp_path, name, value):
    model = ManifoldAutoencoder.from_pretrained(stored)
    setattr(model, name, value)
    with pytest.raises(ArtifactError, match=r"cannot be stored.*" + name):
        model.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("device", ["cuda:7", "meta", "nowhere", 3.5, ["cpu"]])
def test_a_device_that_is_not_here_is_refused(stored, device):
    with pytest.raises(UserError, match="device"):
        ManifoldAutoencoder.from_pretrained(stored, device=device)


def test_a_model_of_version_0_1_opens_and_gives_the_same_images():
    expected = load_file(OLD / "expected.safetensors")
    model, x = ManifoldAutoencoder.from_pretrained(OLD), expected["images"]
    torch.testing.assert_close(model.path(x[0], x[1], t=[0, 1, 2]), expected["path"])
    torch.testing.assert_close(model.coefficient_scales(x), expected["scales"])
    torch.testing.assert_close(model.classify(x), expected["logits"])
    assert model.class_names == ("dark", "bright")
