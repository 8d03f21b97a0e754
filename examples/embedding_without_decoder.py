"""Learn operators on an embedding that has no decoder; pictures show the nearest image.

Run: python examples/embedding_without_decoder.py
"""

import torch
from torch import nn

import transop

data = transop.load_dataset("digits")
images = data.batch(data.splits["train"][:1000])

# Any embedding: a pretrained network, PCA, or as here random features of 1,280 dimensions.
torch.manual_seed(0)
embed = nn.Sequential(nn.Conv2d(1, 20, 7, stride=3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1280))
embed(images[:2])

model = transop.ManifoldAutoencoder.from_modules(embed, images=images, explained=0.8)
z = model.encode(images)  # coordinates along the principal directions
share = model.autoencoder.architecture()["explained"]
print(f"operators act on {z.shape[1]} of 1,280 dimensions: {share:.0%} of the variance")

nearest = torch.cdist(z, z).fill_diagonal_(torch.inf).argmin(1)
learned = transop.learn_operators(z, z[nearest], n_operators=8, n_steps=30, latent_scale=1.0)
model.set_operators(learned.operators, sparsity_weight=learned.sparsity_weight)

found = model.infer(images[:100], images[nearest[:100]])
moved, _ = transop.TransportAugment(model, prior_scale=0.1).move(z)
shown = model.path(images[0], images[nearest[0]], t=[0.0, 0.5, 1.0])  # nearest images
print(f"paths end {found.residual.mean():.0%} of |z| from the neighbour on average")
print(f"moved points {tuple(moved.shape)}, path {tuple(shown.shape)}")
