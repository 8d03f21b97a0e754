"""Learn operators on the features of your own torch model, and move along them."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import transop


def main(epochs: int = 60, n_steps: int = 400) -> None:
    """Train a small network on 8 x 8 digits, then learn how its features vary."""
    images, labels = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    head = nn.Sequential(nn.ReLU(), nn.Linear(16, 10))
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-2)
    for _ in range(epochs):
        optimiser.zero_grad()
        nn.functional.cross_entropy(head(body(images)), labels).backward()
        optimiser.step()

    with torch.no_grad():
        features = body(images)
        learner = transop.TransportOperatorLearner(8, n_steps=n_steps).fit(features)
        covered, living = learner.learned_.paths.covered, int(learner.learned_.living.sum())
        print(f"{living} of 8 operators alive; paths cover {covered:.0%} of the distance")

        moved = torch.from_numpy(learner.sample(features))
        length = ((moved - features).norm(dim=1) / features.norm(dim=1)).mean()
        kept = (head(moved).argmax(1) == head(features).argmax(1)).float().mean()
        print(f"random moves of {length:.2f} of the length keep the class of {kept:.0%}")

        frames = learner.path(features[:1], features[labels == labels[0]][1:2], t=[0, 0.5, 1, 2])
        print("classes along a path:", head(torch.from_numpy(frames[0])).argmax(1).tolist())


if __name__ == "__main__":
    main()
