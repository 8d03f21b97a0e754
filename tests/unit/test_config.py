import contextlib
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transop.config import (
    Settings,
    _apply_override,
    as_override,
    load_settings,
    recipe_names,
    settings_from_tree,
)
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
