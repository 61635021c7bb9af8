"""Out-of-fold predictions of simple models: each sample is predicted by models not trained on it.

Texts, tables and features need no long training. Simple models in cross-validation predict them as
well as a network, within seconds, and cannot have memorised the labels. `classes` is for class
labels, `regression` for regression targets.
"""
