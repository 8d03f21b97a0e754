"""The measurements of `embeddings_study.py`."""
