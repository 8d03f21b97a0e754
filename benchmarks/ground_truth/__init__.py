"""The parts of `ground_truth.py`: sets with known transformations, training, measures, pictures."""
