"""ManifoldAutoencoder: what a user holds, makes of modules, saves and loads."""

from transop.model.autoencoder import ManifoldAutoencoder

__all__ = ["ManifoldAutoencoder"]
