"""Trained models in use.

trained      a model with its description and settings (`Trained`), and data read as its training data were
stream       encode, decode, reconstruct and write: a few rows at a time, into one file
sampling     where new examples come from: the prior, a Gaussian or a mixture fitted to the codes
inspect      test inputs through the model: errors, reconstructions, traversals, samples
export       ONNX files, torch programs, or the safetensors file with its description
hub          models on the Hugging Face hub, with a model card
"""
