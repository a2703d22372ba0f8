"""Runs: from settings and data to a certified model.

config      the settings
setup       everything that is decided before the first batch
trainer     batches, metrics, validation, checkpoints, and the end of a run
validation  the error and the dimensions of a model on held-out data
selection   which models a run keeps
certify     which of them the run ends with
sinks       where a run writes: a folder, or memory
start       starting and resuming a run
front       one run for several taus
listeners   what training tells those who show it
state       what a checkpoint must hold
checkpoint, model_file, trackers, signals
"""
