"""What is measured, in the words of the report and the explorer."""

_WORDS = {
    "test_mse": "mean squared error of reconstructed test images",
    "living": "operators alive",
    "largest_real_part": "fastest growth rate of an operator",
    "latent_magnitude": "mean length of a latent point",
    "label_agreement": "share of training pairs with the same label",
    "latent_scale": "latent scale",
    "test_accuracy": "accuracy of the classifier on test images",
    "distilled_agreement": "agreement of the distilled classifier with its teacher",
    "identity": "identity is the opinion of",
    "n_communities": "groups of the neighbour graph",
    "label_purity": "share of images whose group is named after their label",
    "label_adjusted_rand": "agreement of groups with labels, corrected for chance",
    "kept_encoded": "moves with encoded scales that keep identity",
    "kept_fixed": "moves of the same length with one fixed scale that keep identity",
    "move_length": "mean length of a move, as a share of the point's",
    "coverage": "share of the data's spread that the moves cover",
    "kept_encoded_at_0.3": "kept at a length of 0.3, encoded scales",
    "kept_fixed_at_0.3": "kept at a length of 0.3, one fixed scale",
    "mean_scale": "mean encoded scale",
    "seconds": "time taken",
}


def in_words(measure: str) -> str:
    """Say in plain words what a phase measured."""
    return _WORDS.get(measure, measure.replace("_", " "))
