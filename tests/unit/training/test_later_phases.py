from copy import deepcopy

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.errors import ArtifactError, SettingsError
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop.training import Session
from transop.training import fine_tuning as beyond_module
from transop.training.autoencoder import train_autoencoder
from transop.training.classifier import train_classifier
from transop.training.coefficient_encoder import (
    _draw_pairs,
    neighbour_scales,
    train_coefficient_encoder,
)
from transop.training.fine_tuning import Anchor, Beyond, fine_tune
from transop.training.latents import encode_split, find_latent_scale

FINE = [
    "fine_tuning.batch_size=16",
    "fine_tuning.epochs=1",
    "fine_tuning.network_steps=2",
    "fine_tuning.operator_steps=2",
    "fine_tuning.reconstruction_every=2",
    "fine_tuning.sparsity_weight=0.02",
]
ENCODER = [
    "classifier.epochs=12",
    "classifier.batch_size=16",
    "classifier.learning_rate=3e-3",
    "coefficient_encoder.batch_size=32",
    "coefficient_encoder.epochs=10",
    "coefficient_encoder.hidden=[16]",
    "coefficient_encoder.distil_samples=1000",
    "coefficient_encoder.prior_scale=1.0",
    "coefficient_encoder.kl_weight=0.1",
]


class NeighbourPairs:
    """Every training image with the one most like it."""

    def __init__(self, bars):
        pixels = bars.batch(bars.splits["train"]).flatten(1)
        self.nearest = torch.cdist(pixels, pixels).fill_diagonal_(torch.inf).argmin(1)

    def __len__(self):
        return 128

    def epoch(self, generator, batch_size):
        for rows in torch.randperm(128, generator=generator).split(batch_size):
            yield rows, self.nearest[rows]

    def around(self, positions, generator):
        return torch.stack([positions, self.nearest[positions]], 1)


def fresh_model():
    torch.manual_seed(0)
    network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
    return ManifoldAutoencoder(network, TransportOperators(3, 4), latent_scale=0.5)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, bars):
    """A model whose autoencoder has seen the bars."""
    settings = load_settings("demo", ["autoencoder.epochs=15", "autoencoder.batch_size=16"])
    folder = RunFolder(tmp_path_factory.mktemp("pretraining"))
    session = Session.open(settings, folder)
    trained = fresh_model()
    train_autoencoder(session, trained.autoencoder, bars)
    trained.latent_scale = find_latent_scale(encode_split(trained.autoencoder, bars))
    return trained


@pytest.fixture
def model(pretrained):
    return deepcopy(pretrained)


def weights(model):
    network = torch.cat([p.detach().flatten() for p in model.autoencoder.parameters()])
    return network, model.operators.weight.detach().clone()


def test_an_anchor_feels_shifts_and_shrinking_but_not_a_new_arrangement():
    latents = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    anchor = Anchor(latents)
    assert anchor.drift(latents) < 1e-10
    assert anchor.drift(-(latents - latents.mean(0)) + latents.mean(0)) < 1e-10
    torch.testing.assert_close(anchor.drift(latents + 1), torch.tensor(4.0))
    halved = latents.mean(0) + (latents - latents.mean(0)) / 2
    torch.testing.assert_close(anchor.drift(halved), (anchor.spread / 2).square())


def test_anchored_latents_stay_where_they_were(make_session, model, bars):
    greedy = [*FINE, "fine_tuning.reconstruction_weight=0", "fine_tuning.epochs=8"]
    greedy += ["fine_tuning.reconstruction_every=0", "fine_tuning.network_learning_rate=3e-3"]
    anchor = Anchor(encode_split(model.autoencoder, bars) / model.latent_scale)
    drifts = []
    for weight in (0.0, 10.0):
        tuned = deepcopy(model)
        session = make_session(*greedy, f"beyond_paper.anchor_weight={weight}", name=f"w{weight}")
        fine_tune(session, tuned, bars, NeighbourPairs(bars))
        latents = encode_split(tuned.autoencoder, bars) / tuned.latent_scale
        drifts.append(float(anchor.drift(latents)))
    assert drifts[1] < 0.2 * drifts[0]


def test_asked_for_arrivals_the_decoder_shows_the_second_image_where_paths_end(
    make_session, model, bars
):
    settings = [*FINE, "fine_tuning.epochs=20", "fine_tuning.network_learning_rate=2e-3"]
    settings += ["fine_tuning.reconstruction_weight=0", "fine_tuning.reconstruction_every=0"]
    pairs, images = NeighbourPairs(bars), bars.batch(bars.splits["train"])
    errors = []
    for weight in (0, 5):
        tuned = deepcopy(model)
        session = make_session(
            *settings, f"beyond_paper.arrival_weight={weight}", name=f"a{weight}"
        )
        fine_tune(session, tuned, bars, pairs)
        z0 = tuned.encode(images)
        arrived = tuned.decode(tuned.latent_path(z0, z0[pairs.nearest], torch.tensor([1.0]))[:, 0])
        errors.append(float((arrived - images[pairs.nearest]).square().mean().detach()))
    assert errors[1] < 0.9 * errors[0], errors


def test_asked_to_look_beyond_the_decoder_learns_to_show_something_there(make_session, model, bars):
    settings = [*FINE, "fine_tuning.epochs=20", "fine_tuning.network_learning_rate=2e-3"]
    missed = []
    for weight in (1e-9, 5):
        session = make_session(*settings, f"beyond_paper.beyond_weight={weight}", name=f"b{weight}")
        fine_tune(session, deepcopy(model), bars, NeighbourPairs(bars))
        written = [r["beyond_mse"] for r in session.folder.read_metrics() if "beyond_mse" in r]
        missed.append(written[-1])
    assert missed[1] < 0.9 * missed[0], missed


def test_what_is_shown_beyond_is_the_nearest_of_those_around_the_second_image(
    make_session, model, bars, monkeypatch
):
    session = make_session(*FINE)
    monkeypatch.setattr(beyond_module, "REACH", 1.000001)
    images = bars.batch(bars.splits["train"])
    latents = model.encode(images)

    def infer(z0, z1, weight):
        assert weight == beyond_module.SPARSITY_WEIGHT
        return model.infer_latents(z0, z1, sparsity_weight=1e-6).coefficients

    beyond = Beyond(session, model, bars, NeighbourPairs(bars), latents=latents, infer=infer)
    points, shown = beyond.sample(7, 32)
    again = beyond.sample(7, 32)
    assert torch.equal(points, again[0])
    assert torch.equal(shown, again[1])
    assert not torch.equal(points, beyond.sample(8, 32)[0])
    # whichever image a path led to: of it and its neighbour, the nearer one is shown
    around = NeighbourPairs(bars).around(torch.arange(128), None)
    gaps = (latents[around][None] - (points / model.latent_scale)[:, None, None]).norm(dim=-1)
    nearer = around[None].expand(32, -1, -1).gather(2, gaps.argmin(2, keepdim=True))[..., 0]
    same = (images[nearer] == shown[:, None]).flatten(2).all(2)
    assert bool(same.any(1).all())
    assert len(shown.flatten(1).unique(dim=0)) > 5


def test_nothing_is_asked_beyond_of_a_network_that_has_broken_down(make_session, model, bars):
    session, latents = make_session(*FINE), torch.zeros(128, 4)
    with torch.no_grad():
        model.autoencoder.encoder[-1].bias.fill_(torch.nan)
    beyond = Beyond(session, model, bars, NeighbourPairs(bars), latents=latents, infer=None)
    assert beyond.sample(0, 8) is None


def test_all_devices_agree_when_one_of_them_has_nothing_to_show_beyond(
    make_session, model, bars, monkeypatch
):
    """Else only some of them would add a number to the exchange at the end of the step."""
    session, latents = make_session(*FINE), torch.zeros(128, 4)
    beyond = Beyond(
        session, model, bars, NeighbourPairs(bars), latents=latents, infer=lambda *_: 1 / 0
    )
    monkeypatch.setattr(session, "any_device", lambda broken: not broken)  # only another one is
    assert beyond.sample(0, 8) is None


def test_looking_beyond_leaves_the_statistics_of_normalisation_alone(make_session, bars, model):
    before = {k: v.clone() for k, v in model.autoencoder.named_buffers()}
    session = make_session(*FINE, "beyond_paper.beyond_weight=1")
    fine_tune(session, model, bars, NeighbourPairs(bars))
    assert before
    for name, value in model.autoencoder.named_buffers():
        assert torch.equal(value, before[name]), name


def test_network_and_operator_steps_take_turns(make_session, bars):
    changed = []
    for n_steps in (1, 2, 3):
        session = make_session(*FINE, f"fine_tuning.epochs={n_steps / 8}", name=f"run{n_steps}")
        model = fresh_model()
        before = weights(model)
        fine_tune(session, model, bars, NeighbourPairs(bars))
        after = weights(model)
        changed.append([not torch.equal(a, b) for a, b in zip(before, after, strict=True)])
    assert changed == [[True, False], [True, False], [True, True]]


def test_fine_tuning_lowers_the_joint_objective_and_keeps_its_sparsity_weight(
    make_session, bars, model
):
    session = make_session(*FINE, "fine_tuning.epochs=6", "fine_tuning.network_learning_rate=1e-3")
    fine_tune(session, model, bars, NeighbourPairs(bars))
    written = [r["joint"] for r in session.folder.read_metrics() if "joint" in r]
    assert written[-1] < written[0]
    assert model.sparsity_weight == 0.02
    assert not model.autoencoder.training


def test_the_size_of_latents_is_known_before_the_operators_first_turn(make_session, bars, model):
    session = make_session(*FINE, "fine_tuning.epochs=0.125")  # one step, of the network
    fine_tune(session, model, bars, NeighbourPairs(bars))
    (size,) = (r["latent_magnitude"] for r in session.folder.read_metrics() if "living" in r)
    latents = encode_split(model.autoencoder, bars) / model.latent_scale
    assert size == pytest.approx(float(latents.norm(dim=1).mean()), rel=0.2)


@pytest.mark.parametrize("beyond", [0, 1])
def test_fine_tuning_continues_to_the_same_bits(make_session, bars, beyond):
    settings = [*FINE, f"beyond_paper.beyond_weight={beyond}"]
    whole = fresh_model()
    fine_tune(make_session(*settings, name="whole"), whole, bars, NeighbourPairs(bars))
    session = make_session(*settings, name="cut")

    def stop_at_five(items, description, total=None):
        for item in items:
            session.stop_requested = item == 5
            yield item

    session.progress = stop_at_five
    with pytest.raises(KeyboardInterrupt):
        fine_tune(session, fresh_model(), bars, NeighbourPairs(bars))
    resumed = fresh_model()
    fine_tune(make_session(*settings, name="cut"), resumed, bars, NeighbourPairs(bars))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.mark.parametrize("domain", ["image", "latent"])
def test_the_classifier_learns_the_labels_in_both_domains(make_session, bars, model, domain):
    session = make_session(*ENCODER, f"classifier.domain={domain}", "classifier.epochs=30")
    numbers = train_classifier(session, model, bars)
    assert numbers["test_accuracy"] >= 0.9
    assert model.classifier_domain == domain
    assert model.classify(bars.batch([0, 1])).shape == (2, 2)


def linear_classifier():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 2))


def test_a_classifier_of_the_users_own_brings_its_weights(make_session, bars, model, tmp_path):
    own = linear_classifier()
    save_file(own.state_dict(), tmp_path / "own.safetensors")
    session = make_session(
        f"classifier.factory={__name__}:linear_classifier",
        f"classifier.weights={tmp_path / 'own.safetensors'}",
    )
    unlabelled = type(bars)(bars.images, None, bars.splits, bars.meta)
    with pytest.MonkeyPatch.context() as patch:
        import sys

        patch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this_module())
        assert train_classifier(session, model, unlabelled) == {"identity": "your own classifier"}
    images = bars.batch([0, 1])
    torch.testing.assert_close(model.classify(images), own(images))


def _this_module():
    import types

    module = types.ModuleType(__name__)
    module.linear_classifier = linear_classifier
    return module


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("classifier.factory=nothing.here:build", "nothing.here:build"),
        ("classifier.factory=os", "module:function"),
        ("classifier.factory=os:getcwd", "returned str"),
        ("classifier.network=latent-mlp", "does not read the domain 'image'"),
    ],
)
def test_unusable_classifiers_are_refused(make_session, bars, override, message):
    with pytest.raises(SettingsError, match=message):
        train_classifier(make_session(override), fresh_model(), bars)


def test_unusable_classifier_weights_are_named(make_session, bars, tmp_path):
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"not safetensors")
    with pytest.raises(ArtifactError, match=r"bad\.safetensors"):
        train_classifier(make_session(f"classifier.weights={bad}"), fresh_model(), bars)
    save_file({"other": torch.zeros(2)}, bad)
    with pytest.raises(ArtifactError, match="does not fit"):
        train_classifier(make_session(f"classifier.weights={bad}"), fresh_model(), bars)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["coefficient_encoder.distil=false"],
        ["classifier.domain=latent"],
    ],
    ids=["distilled", "through the decoder", "latent classifier"],
)
def test_encoded_scales_keep_the_label_at_least_as_often_as_a_fixed_scale_of_equal_length(
    make_session, bars, model, overrides
):
    session = make_session(*ENCODER, *overrides)
    train_classifier(session, model, bars)
    numbers = train_coefficient_encoder(session, model, bars)
    assert numbers["kept_encoded"] >= numbers["kept_fixed"] - 0.1  # sixteen images
    assert numbers["move_length"] > 0
    assert numbers["identity"] == "a classifier trained on the labels"
    encoded, fixed = numbers["curves"]
    assert encoded["length"] == pytest.approx(fixed["length"], rel=0.05)
    assert model.coefficient_scales(bars.batch([0, 1])).shape == (2, 3)
    assert model.prior_scale == 1.0
    assert all(p.requires_grad for p in model.autoencoder.parameters())


def test_dead_operators_follow_the_prior_and_are_left_out_of_averages(make_session, bars, model):
    with torch.no_grad():
        model.operators.weight[0] = 0
    session = make_session(
        *ENCODER,
        "classifier.domain=latent",
        "coefficient_encoder.epochs=40",
        "coefficient_encoder.learning_rate=1e-2",
    )
    train_classifier(session, model, bars)
    numbers = train_coefficient_encoder(session, model, bars)
    scales = numbers["mean_scales"]
    assert scales[0] == pytest.approx(1.0, rel=0.3)
    assert numbers["mean_scale"] == pytest.approx(np.mean(scales[1:]), rel=1e-3)


def unlabelled(bars):
    return type(bars)(bars.images, None, bars.splits, bars.meta)


def test_without_labels_the_neighbour_graph_is_the_identity(make_session, bars, model):
    session = make_session(*ENCODER, "pairs.strategy=pixel", "identity.n_communities=2")
    numbers = train_classifier(session, model, unlabelled(bars))
    assert numbers["identity"] == "2 groups of the neighbour graph, found without labels"
    assert model.classifier_domain == "latent"
    assert model.config()["identity"] == {"source": "graph", "n_communities": 2}
    found = train_coefficient_encoder(session, model, unlabelled(bars))
    assert found["identity"] == numbers["identity"]
    assert model.coefficient_scales(bars.batch([0, 1])).shape == (2, 3)


def test_groups_of_labelled_images_are_compared_with_the_labels(make_session, bars, model):
    session = make_session(
        *ENCODER, "identity.source=graph", "pairs.strategy=pixel", "identity.n_communities=2"
    )
    numbers = train_classifier(session, model, bars)
    assert numbers["n_communities"] == 2
    assert 0.5 <= numbers["label_purity"] <= 1
    assert -0.1 <= numbers["label_adjusted_rand"] <= 1
    assert "test_accuracy" not in numbers  # groups are not classes


def test_a_graph_of_a_sample_names_the_rest_too(make_session, bars, model):
    session = make_session(*ENCODER, "identity.most_images=100", "identity.n_communities=2")
    train_classifier(session, model, unlabelled(bars))
    assert model.classify(bars.batch(bars.splits["train"])).shape == (128, 2)


def test_the_prior_is_read_from_the_data_unless_it_is_given(make_session, bars, model):
    settings = [s for s in ENCODER if "prior_scale" not in s]
    session = make_session(*settings, "classifier.domain=latent")
    train_classifier(session, model, bars)
    before = model.prior_scale
    train_coefficient_encoder(session, model, bars)
    assert model.prior_scale == before


def test_scales_between_neighbours_favour_the_operators_that_neighbours_need(make_session, model):
    generator = torch.Generator().manual_seed(0)
    latents = torch.randn(400, 4, generator=generator)
    needed = torch.zeros(400, 3)
    needed[:, 1] = 0.3 * torch.randn(400, generator=generator)
    moved = model.transport(needed, latents)
    points = torch.cat([latents, moved])
    partners = torch.arange(800).roll(400)[:, None]
    scales = neighbour_scales(make_session(), model, points, partners)
    assert scales.shape == (800, 3)
    assert scales[:, 1].mean() > 2 * scales[:, [0, 2]].mean()


def test_points_without_neighbours_are_left_out_of_the_scales():
    table = torch.full((50, 3), -1)
    table[:25, 1] = torch.arange(25, 50)
    first, second = _draw_pairs(table, torch.Generator().manual_seed(0))
    assert sorted(first.tolist()) == list(range(25))
    assert (second == first + 25).all()
