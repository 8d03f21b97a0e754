"""Use the operators in a scikit-learn pipeline: after PCA, before a classifier."""

from imblearn.pipeline import Pipeline as ResamplingPipeline
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from transop import TransportOperatorLearner


def main(n_steps: int = 400) -> None:
    """Score operators on held-out digits, then augment the training rows of a classifier."""
    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, train_size=300, stratify=labels, random_state=0
    )
    operators = Pipeline(
        [("pca", PCA(16)), ("operators", TransportOperatorLearner(8, n_steps=n_steps))]
    )
    operators.fit(train)
    covered = operators.score(test)
    print(f"held-out neighbours: paths cover {covered:.0%} of the distance")

    head = LogisticRegression(max_iter=1000)
    for n_copies in (0, 4):
        learner = TransportOperatorLearner(8, n_steps=n_steps, n_copies=n_copies)
        steps = [("pca", PCA(16)), ("augment", learner), ("classify", head)]
        classifier = ResamplingPipeline(steps).fit(train, train_labels)
        accuracy = classifier.score(test, test_labels)
        print(f"{n_copies} moved copies of every row: test accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
