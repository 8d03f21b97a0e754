"""Learn operators in the latent space of an autoencoder that transop did not write.

Run: python examples/own_autoencoder.py
"""

import torch
from torch import nn

import transop

data = transop.load_dataset("digits")
images = data.batch(data.splits["train"][:1000])  # floats in [0, 1], shape (1000, 1, 28, 28)

# Your own network, trained as you like; here a small one for a few seconds.
torch.manual_seed(0)
encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(128), nn.ReLU(), nn.Linear(128, 8))
decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, images[0].numel()))
decoder.extend([nn.Sigmoid(), nn.Unflatten(1, tuple(images.shape[1:]))])
encoder(images[:2])
optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 3e-3)
for _ in range(100):
    batch = images[torch.randint(len(images), (128,))]
    loss = (decoder(encoder(batch)) - batch).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

model = transop.ManifoldAutoencoder.from_modules(encoder, decoder, images=images)
z = model.encode(images)
nearest = torch.cdist(z, z).fill_diagonal_(torch.inf).argmin(1)
learned = transop.learn_operators(z, z[nearest], n_operators=8, n_steps=100, latent_scale=1.0)
model.set_operators(learned.operators, sparsity_weight=learned.sparsity_weight)

frames = model.path(images[0], images[nearest[0]], t=[0.0, 0.5, 1.0, 1.5])
moved = transop.TransportAugment(model, prior_scale=0.1)(images[:16])
print(f"{int(learned.living.sum())} of 8 operators are alive")
print(f"path {tuple(frames.shape)}, augmented {tuple(moved.shape)}")
