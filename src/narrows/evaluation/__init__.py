"""How good a trained model and its samples are.

evaluate      `narrows.evaluate`: error, dimensions and samples of a run's model, on its test split
features      the numbers by which examples are compared
classifier    a small network, trained on the set's labels, whose last hidden layer gives an image's features
frechet       the Fréchet distance between two sets of features

`narrows.runs.evaluation` holds the record that `evaluate` returns, because it is a file of the run's folder.
"""
