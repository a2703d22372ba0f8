"""A model whose codes are a linear function of another model's codes, by new weights of the layers on both sides of z.

The encoder's last layer and the decoder's first are linear, so z = E m + e, with the old means m, and a decoder that
reads D z + d, need no further layer. The new model has no noise in its posterior to speak of: it is an autoencoder in
the form in which all methods are measured.
"""

import torch
from torch import Tensor, nn

from narrows.model.vae import VAE

SILENT = -100.0
"""The log standard deviation that is asked for; the model's bound makes it -8."""


@torch.no_grad()
def folded(model: VAE, encode: Tensor, shift: Tensor, decode: Tensor, centre: Tensor) -> VAE:
    """Return a model with k dimensions, z = encode m + shift, which decodes `decode z + centre`.

    Arguments:
        model: The model with codes m, (n,).
        encode: (k, n).
        shift: (k,).
        decode: (n, k).
        centre: (n,).
    """
    k = len(encode)
    smaller = VAE.narrow(model, list(range(k)))
    old, new = model.latent_layer, smaller.latent_layer
    assert isinstance(old.mean, nn.Linear)
    assert isinstance(old.stem, nn.Linear)
    n, weight = model.n, old.mean.weight
    encode, shift, decode, centre = (part.to(weight) for part in (encode, shift, decode, centre))
    new.mean.weight[:k] = encode @ weight[:n]
    assert new.mean.bias is not None
    assert new.log_std.bias is not None
    assert new.stem.bias is not None
    new.mean.bias[:k] = encode @ old.mean.bias[:n] + shift
    new.log_std.weight[new.log_std_from :] = 0
    new.log_std.bias[new.log_std_from :] = SILENT
    new.stem.weight.copy_(old.stem.weight @ decode)
    new.stem.bias.copy_(old.stem.bias + old.stem.weight @ centre)
    return smaller


@torch.no_grad()
def principal(model: VAE, codes: Tensor, mix: Tensor, k: int) -> VAE:
    """Return a model with the first k principal components of the codes y = mix m, all in one unit.

    Arguments:
        model: The model with codes m, whose decoder reads y.
        codes: The codes y of training examples, (N, n).
        mix: (n, n).
        k: The number of components.
    """
    mean = codes.mean(0)
    values, vectors = torch.linalg.eigh((codes - mean).T @ (codes - mean) / len(codes))
    directions = vectors.flip(1)[:, :k]  # (n, k), the largest variance first
    unit = (values.sum().clamp(min=1e-30) / len(values)).sqrt()
    encode = directions.T / unit
    return folded(model, encode @ mix.double(), -encode @ mean, directions * unit, mean)
