"""What somebody does first after ``pip install transop``, without any extra."""

import subprocess

import torch

import transop
from transop_app.examples import example_folder

assert "site-packages" in str(transop.__file__), transop.__file__

# Any vectors: pairs of points that one rotation in four dimensions joins.
draw = torch.Generator().manual_seed(0)
rotation = torch.tensor([[[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -2], [0, 0, 2, 0]]])
z0 = torch.nn.functional.normalize(torch.randn(400, 4, generator=draw), dim=1)
z1 = transop.transport(rotation, 0.2 * torch.rand(400, 1, generator=draw), z0)

learned = transop.learn_operators(z0, z1, n_operators=4, n_steps=60, generator=draw)
found = transop.infer_coefficients(learned.operators, z0, z1, sparsity_weight=1e-3)
assert found.converged.float().mean() > 0.9
covered = 1 - (found.residual * z1.norm(dim=1) / (z1 - z0).norm(dim=1)).mean()
assert covered > 0.5, covered
estimator = transop.TransportOperatorLearner(n_operators=4, n_steps=20).fit(z0.numpy())
assert estimator.sample(z0.numpy()).shape == z0.shape

# A shipped model.
run = transop.Run.open(example_folder("mnist"))
images = run.held_out.batch(range(8))
moved = transop.TransportAugment(run.model, p=1.0)(images)
assert moved.shape == images.shape
assert (run.model.reconstruct(images) - images).square().mean() < 0.02
frames = run.model.path(images[0], images[1], t=[0, 1, 2])
assert torch.isfinite(frames).all()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Call the command line."""
    return subprocess.run(["transop", *words], capture_output=True, text=True, timeout=120)


assert command("--version").stdout.strip() == f"transop {transop.__version__}"
assert "explore" in command("--help").stdout
refused = command("explore", "--example", "mnist", "--no-browser")
assert refused.returncode == 2, refused
assert "pip install 'transop[explore]'" in refused.stderr, refused.stderr
