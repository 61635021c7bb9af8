"""Out-of-fold predictions: each sample is predicted by models that were not trained on it."""
