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
    "kept_label_encoded": "moves with encoded scales that keep the class",
    "kept_label_prior": "moves with the fixed prior that keep the class",
    "relative_move_encoded": "length of a move with encoded scales, as a share of the point's",
    "relative_move_prior": "length of a move with the fixed prior, as a share of the point's",
    "mean_scale": "mean encoded scale",
    "seconds": "time taken",
}


def in_words(measure: str) -> str:
    """Say in plain words what a phase measured."""
    return _WORDS.get(measure, measure.replace("_", " "))
