import contextlib
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transop.config import (
    Settings,
    as_override,
    load_settings,
    recipe_names,
    settings_from_tree,
)
from transop.config.retired import DROPPED, RENAMED
from transop.config.settings import _apply_override
from transop.errors import SettingsError


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_is_valid_and_round_trips(name):
    settings = load_settings(name)
    assert settings_from_tree(tomllib.loads(settings.to_toml()), Settings) == settings


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("autoencoder.epoch=3", ["autoencoder.epoch", "did you mean 'epochs'"]),
        ("autoencoder.epochs=many", ["autoencoder.epochs", "many"]),
        ("autoencoder.epochs=nan", ["autoencoder.epochs"]),
        ("pairs.strategy=percetual", ["pairs.strategy", "did you mean 'perceptual'", "'random'"]),
        ("operators.latent_scale=-1", ["latent_scale", "-1"]),
        ("operators.n_blocks=3", ["n_blocks", "latent_dimension"]),
        ("operators.n_operators=0", ["operators.n_operators", "0"]),
        ("autoencoder=3", ["autoencoder", "3"]),
        ("epochs", ["section.key=value"]),
        ("operator.epochs=3", ["operator", "did you mean 'operators'"]),
    ],
)
def test_a_bad_override_names_key_value_and_remedy_in_one_line(override, words):
    with pytest.raises(SettingsError) as caught:
        load_settings("demo", [override])
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_an_unknown_recipe_lists_the_shipped_ones():
    with pytest.raises(SettingsError, match=r"did you mean 'demo'.*shipped recipes are"):
        load_settings("dmo")


def test_overrides_come_after_the_recipe():
    assert load_settings("demo", ["autoencoder.epochs=2"]).autoencoder.epochs == 2
    assert Settings().updated(["data.source=mnist"]).data.source == "mnist"


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_override_ever_escapes_as_another_error(key, value):
    for override in (f"{key}={value}", f"autoencoder.{key}={value}", f"data.source={value}", key):
        with contextlib.suppress(SettingsError):
            load_settings("demo", [override])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    )
)
def test_no_tree_ever_escapes_as_another_error(tree):
    for whole in (tree, {"autoencoder": tree}, {"operators": {"latent_scale": tree}}):
        with contextlib.suppress(SettingsError):
            settings_from_tree(whole, Settings)


@given(st.text(max_size=30) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_a_setting_written_as_an_override_is_read_back_as_it_was(value):
    tree = {}
    _apply_override(tree, as_override("section.key", value))
    assert tree == {"section": {"key": value}}


def test_fine_tuning_inherits_the_objective_unless_it_overrides_it():
    settings = load_settings("demo", ["objective.sparsity_weight=0.3"])
    assert settings.fine_tuning_objective.sparsity_weight == 0.3
    settings = settings.updated(["fine_tuning.sparsity_weight=0.1"])
    assert settings.fine_tuning_objective.sparsity_weight == 0.1
    assert settings.objective.sparsity_weight == 0.3
    real_parts = settings.updated(["fine_tuning.real_part_penalty=0"]).fine_tuning_objective
    assert real_parts.real_part_penalty == 0


OLD = """
recipe = "mine"
[autoencoder]
edge_weight = 2.0
[operators]
n_operators = 8
sparsity_weight = 0.1
operator_decay = 2e-4
origin = "mirrored"
solver = "gauss-newton"
variance = 0.05
[fine_tuning]
anchor_weight = 0.1
beyond_reach = 2.6
"""


def test_a_config_written_by_version_0_1_opens(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(OLD)
    settings = load_settings(file)
    assert settings.operators.n_operators == 8
    assert settings.objective.sparsity_weight == 0.1
    assert settings.beyond_paper.origin == "mirrored"
    assert settings.beyond_paper.edge_weight == 2.0
    assert settings.beyond_paper.anchor_weight == 0.1
    # what fine-tuning used in version 0.1, where that was not said
    assert settings.fine_tuning_objective.operator_decay == 1e-5
    assert settings.fine_tuning_objective.sparsity_weight == 0.05


def test_an_old_value_that_no_longer_exists_is_refused_in_one_line(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(OLD.replace('solver = "gauss-newton"', 'solver = "proximal"'))
    with pytest.raises(SettingsError, match=r"operators.solver' = 'proximal'.*remove that line"):
        load_settings(file)


def test_an_old_name_on_the_command_line_is_answered_with_the_new_one():
    with pytest.raises(SettingsError, match=r"it is now 'objective.sparsity_weight'"):
        load_settings("demo", ["operators.sparsity_weight=0.1"])
    with pytest.raises(SettingsError, match=r"operators.restarts'; it no longer exists"):
        load_settings("demo", ["operators.restarts=3"])


@pytest.mark.parametrize("old", [*RENAMED, *DROPPED])
def test_retired_settings_are_gone_and_their_successors_exist(old):
    def exists(key):
        section, _, name = key.partition(".")
        return name in Settings().model_dump()[section]

    assert not exists(old)
    assert old in DROPPED or exists(RENAMED[old])
