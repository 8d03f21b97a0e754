"""The runs ours is compared with: their settings follow from those of our run."""

import pytest

from transop.config import load_settings
from transop.errors import UserError
from transop_paper.baselines import BASELINES
from transop_paper.baselines.settings import BaselineSettings
from transop_paper.figures.companions import COMPANIONS, companion_settings


@pytest.mark.parametrize("name", ["dense", "latent-pairs"])
@pytest.mark.parametrize("folder", ["Anna's runs", 'a "b" \\c', "{ae} = 1 # no"])
def test_a_shared_autoencoder_is_found_whatever_its_folder_is_called(name, folder, tmp_path):
    autoencoder = tmp_path / folder / "ae"
    settings = companion_settings(load_settings("demo"), name, autoencoder)
    assert settings.autoencoder.weights == str(autoencoder.resolve())


@pytest.mark.parametrize("name", COMPANIONS)
def test_companions_keep_the_settings_of_the_run(name, tmp_path):
    run = load_settings("faces", ["autoencoder.epochs=3", "runtime.seed=7"])
    settings = companion_settings(run, name, tmp_path)
    assert (settings.autoencoder.epochs, settings.runtime.seed) == (3, 7)
    if name in BASELINES:
        assert isinstance(settings, BaselineSettings)
        assert settings.method == name
        assert settings.beta_vae.beta == 10
    else:
        assert settings.pairs.strategy == "latent"


def test_an_unknown_companion_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"'nobody' does not exist.*beta-vae"):
        companion_settings(load_settings("demo"), "nobody", tmp_path)
