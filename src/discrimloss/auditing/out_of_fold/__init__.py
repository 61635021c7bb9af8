"""Out-of-fold predictions of simple models: each sample is predicted by models that never saw it.

Texts, tables and features need no long training: simple models that are fitted in cross-validation
predict them as well, within seconds, and cannot have memorised the labels that they are compared
with. `classes` is for class labels, `regression` for regression targets.
"""
