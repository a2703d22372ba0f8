"""Networks and models: how they are built, used, saved and loaded."""

import numpy as np
import torch
from torch import nn

import narrows
from faults.calls.frame import (
    COUNT,
    HUGE,
    INF,
    LATENT,
    LINEAR,
    NAN,
    NOT_COUNTS,
    NOT_FLAGS,
    NOT_GENERATORS,
    NOT_MODELS,
    NOT_PATHS,
    NOT_SIZES,
    NOT_TENSORS,
    PATH,
    SIZE,
    VALUES,
    Good,
    N,
    each,
    one,
)
from narrows import (
    VAE,
    GatedVAE,
    NetworkConfig,
    gated_vae,
)
from narrows.networks import Scaling, build
from narrows.networks.pruning import with_inputs, with_outputs

NETWORKS = [
    *each(
        "NetworkConfig(kind)",
        "kind must be one of conv, mlp",
        lambda g, v: NetworkConfig(v, (4,), 2),
        (None, "foo", "", "MLP", 3, ["mlp"]),
    ),
    *each(
        "NetworkConfig(shape)",
        r"shape must be \(values,\) or \(channels, height, width\)",
        lambda g, v: NetworkConfig("mlp", v, 2),
        (None, 4, "4", (), (0,), (-4,), (2, 3), (1, 2, 3, 4), (4.0,), (None,), [True], torch.zeros(3)),
    ),
    *each(
        "NetworkConfig(n)",
        "n must be a whole number from 0 to 1,000,000",
        lambda g, v: NetworkConfig("mlp", (4,), n=v),
        (None, "4", -1, 2.5, NAN, INF, True, [4], HUGE),
    ),
    *each("NetworkConfig(width)", f"width {SIZE}", lambda g, v: NetworkConfig("mlp", (4,), 2, v), NOT_SIZES),
    *each(
        "NetworkConfig(output)",
        "output must be one of sigmoid, linear",
        lambda g, v: NetworkConfig("mlp", (4,), 2, output=v),
        (None, "none", "Linear", 0),
    ),
    *each(
        "NetworkConfig(direct)",
        "direct must be true or false",
        lambda g, v: NetworkConfig("mlp", (4,), 2, direct=v),
        NOT_FLAGS,
    ),
    *each(
        "gated_vae", "network must be a NetworkConfig", lambda g, v: gated_vae(v), (None, "mlp", {}, ("mlp", (4,), 2))
    ),
    *each("build", "network must be a NetworkConfig", lambda g, v: build(v), (None, "conv", {"kind": "mlp"})),
    *one("gated_vae", "convolutional networks take images", lambda g: gated_vae(NetworkConfig("conv", (20,), 2))),
    *one("gated_vae", "convolutional networks take images", lambda g: gated_vae(NetworkConfig("conv", (1, 8, 8), 2))),
    *one("gated_vae", "n must be at least 1 to build networks", lambda g: gated_vae(NetworkConfig("mlp", (4,), 0))),
    *one("gated_vae", "there is not enough memory", lambda g: gated_vae(NetworkConfig("mlp", (10**15,), 2))),
    *one("gated_vae", "there is not enough memory", lambda g: gated_vae(NetworkConfig("mlp", (HUGE,), 2))),
    *one("gated_vae", "there is not enough memory", lambda g: gated_vae(NetworkConfig("mlp", (4,), 10**6, 10**6))),
    *each(
        "Scaling(output)", "output must be one of none, sigmoid, linear", lambda g, v: Scaling(v), (None, "x", 1, [])
    ),
    *each("Scaling(shape)", "shape must be the shape", lambda g, v: Scaling("linear", v), (None, 4, "4", (0,), (2.5,))),
    *one("Scaling.fit", r"Scaling\('none'\) has no shift", lambda g: Scaling().fit(torch.zeros(2), torch.ones(()))),
    *each(
        "Scaling.fit(mean)",
        "mean must be a tensor of finite numbers",
        lambda g, v: Scaling("linear", (2,)).fit(v, torch.ones(())),
        (None, 0.5, [0.0, 0.0], np.zeros(2), torch.tensor([NAN, 0.0])),
    ),
    *each(
        "Scaling.fit(spread)",
        "spread must be a tensor of finite numbers",
        lambda g, v: Scaling("linear", (2,)).fit(torch.zeros(2), v),
        (None, 1.0, np.float32(1), torch.tensor(INF)),
    ),
    *one("Scaling.fit", "mean must have the shape", lambda g: Scaling("linear", (2,)).fit(g.x[0], torch.ones(()))),
    *one("Scaling.fit", "spread must be one", lambda g: Scaling("linear", (2,)).fit(torch.zeros(2), torch.ones(2))),
    *one(
        "Scaling.fit", "spread must be one", lambda g: Scaling("linear", (2,)).fit(torch.zeros(2), torch.tensor(-1.0))
    ),
]

MODELS = [
    *each(
        "GatedVAE(encoder)",
        "the encoder must be a torch.nn.Module",
        lambda g, v: GatedVAE(v, g.decoder, N),
        (None, "x"),
    ),
    *each(
        "GatedVAE(decoder)", "the decoder must be a torch.nn.Module", lambda g, v: GatedVAE(g.encoder, v, N), (None, [])
    ),
    *each(
        "GatedVAE(latent)",
        LATENT,
        lambda g, v: GatedVAE(g.encoder, g.decoder, v),
        (None, "4", -1, 4.0, NAN, True, HUGE, (), (4, 2), (4, 0, 2), (4, 2.0, 2), [[4]], {4}, torch.zeros(3)),
    ),
    *each("VAE(latent)", LATENT, lambda g, v: VAE(g.encoder, g.decoder, v), (None, "4", -1, 4.5, INF, [], ["4"])),
    *one("VAE(latent)", "latent must be at least 1 for networks that make", lambda g: VAE(g.encoder, g.decoder, 0)),
    *one(
        "GatedVAE(latent)",
        "a model without latent dimensions has nothing to gate",
        lambda g: GatedVAE(with_outputs(nn.Linear(2, 2), []), with_inputs(nn.Linear(2, 2), []), 0),
    ),
    *one("GatedVAE(latent)", "the encoder must end with one layer of 10", lambda g: GatedVAE(g.encoder, g.decoder, 5)),
    *each(
        "GatedVAE(heads)",
        "heads must be one or two names of layers",
        lambda g, v: GatedVAE(g.encoder, g.decoder, N, v),
        ("mu", 3, [1, 2], ["a", "b", "c"], {"mu": 1}),
    ),
    *one("GatedVAE(heads)", "the encoder has no layer 'mu'", lambda g: GatedVAE(g.encoder, g.decoder, N, ["mu"])),
    *each(
        "GatedVAE(stem)",
        "stem must be the name of a layer",
        lambda g, v: GatedVAE(g.encoder, g.decoder, N, stem=v),
        (None, 0, ["input"], LINEAR),
    ),
    *one(
        "GatedVAE(stem)", "the decoder has no layer 'input'", lambda g: GatedVAE(g.encoder, g.decoder, N, stem="input")
    ),
    *each(
        "GatedVAE(scaling)",
        "scaling must be a narrows.networks.Scaling, or None",
        lambda g, v: GatedVAE(g.encoder, g.decoder, N, scaling=v),
        ("linear", 1.0, Scaling, LINEAR),
    ),
    *each(
        "GatedVAE(network)",
        "network must be a NetworkConfig.*, or None",
        lambda g, v: GatedVAE(g.encoder, g.decoder, N, network=v),
        ("mlp", {}, ("mlp", (6,), 4)),
    ),
    *one(
        "GatedVAE(network)",
        "network says 9 dimensions and latent says 4",
        lambda g: GatedVAE(g.encoder, g.decoder, N, network=NetworkConfig("mlp", (6,), 9)),
    ),
    *each("VAE.encode", r"x must be a tensor of examples, \(batch, 6\)", lambda g, v: g.vae.encode(v), NOT_TENSORS),
    *one("VAE.encode", r"x must be .*it is of shape \(3, 7\)", lambda g: g.vae.encode(torch.zeros(3, 7))),
    *one("VAE.encode", r"x must be .*it is of shape \(6,\)", lambda g: g.vae.encode(torch.zeros(VALUES))),
    *each("GatedVAE.encode", "x must be a tensor of examples", lambda g, v: fresh(g).encode(v), NOT_TENSORS),
    *one("GatedVAE.encode", "x must be a tensor of examples", lambda g: fresh(g).encode(torch.zeros(0, VALUES))),
    *one(
        "GatedVAE.encode",
        r"the encoder fails on a batch of shape \(2, 7\)",
        lambda g: fresh(g).encode(torch.zeros(2, 7)),
    ),
    *one("GatedVAE.encode", "x must be torch.float32", lambda g: checked(g).encode(torch.zeros(2, VALUES).double())),
    *each("VAE.decode", r"z must be a tensor of codes, \(batch, 4\)", lambda g, v: g.vae.decode(v), NOT_TENSORS),
    *one("VAE.decode", r"z must be .*it is of shape \(2, 5\)", lambda g: g.vae.decode(torch.zeros(2, 5))),
    *one("VAE.decode", "z must be torch.float32", lambda g: g.vae.decode(torch.zeros(2, 4, dtype=torch.int64))),
    *each("GatedVAE.decode", r"z must be a tensor of codes", lambda g, v: g.model.decode(v), NOT_TENSORS),
    *one("GatedVAE.decode", r"z must be a tensor of codes", lambda g: g.model.decode(torch.zeros(2, 5))),
    *each("VAE.reconstruct", "x must be a tensor of examples", lambda g, v: g.vae.reconstruct(v), NOT_TENSORS),
    *each(
        "VAE.reconstruct(generator)",
        "generator must be a torch.Generator",
        lambda g, v: g.vae.reconstruct(g.x, v),
        NOT_GENERATORS,
    ),
    *each("VAE.sample(count)", f"count {COUNT}", lambda g, v: g.vae.sample(v), NOT_COUNTS),
    *one("VAE.sample(count)", "there is not enough memory", lambda g: g.vae.sample(10**14)),
    *one("VAE.sample(count)", "there is not enough memory", lambda g: g.vae.sample(HUGE)),
    *each("VAE.sample(generator)", "generator must be a torch.Gen", lambda g, v: g.vae.sample(2, v), NOT_GENERATORS),
    *each(
        "VAE.narrow(kept)",
        "kept must be different numbers from 0 to 3",
        lambda g, v: g.vae.narrow(v),
        (None, 2, "01", [4], [-1], [0, 0], [0.5], [True], {0}, [None], [HUGE]),
    ),
    *each("save_model(model)", "model must be a VAE", lambda g, v: narrows.save_model(v, "m.safetensors"), NOT_MODELS),
    *each("save_model(path)", f"path {PATH}", lambda g, v: narrows.save_model(g.vae, v), NOT_PATHS),
    *one("save_model(path)", "path must be a file, and .* is a folder", lambda g: narrows.save_model(g.vae, g.folder)),
    *one(
        "save_model(path)", "path: the folder .* does not exist", lambda g: narrows.save_model(g.vae, g.missing / "m")
    ),
    *one("save_model", "a model with gates cannot be saved", lambda g: narrows.save_model(gated_vae(g.network), "m")),
    *one("save_model", "only networks built from a", lambda g: narrows.save_model(VAE(g.encoder, g.decoder, N), "m")),
    *one(
        "save_model",
        "the model's networks are not those of its NetworkConfig",
        lambda g: narrows.save_model(VAE(g.encoder, g.decoder, N, network=g.network), "m"),
    ),
    *one(
        "save_model",
        "the model cannot be saved: kept must be 4 different",
        lambda g: narrows.save_model(miskept(g), "m"),
    ),
    *each("save_model(about)", "about must be a dict", lambda g, v: narrows.save_model(g.vae, "m", v), ("tau", 3, [1])),
    *one("save_model", "about must hold numbers", lambda g: narrows.save_model(g.vae, "m", {"x": torch.zeros(1)})),
    *one("save_model", "the model cannot be saved: tau must", lambda g: narrows.save_model(g.vae, "m", {"tau": -1})),
    *each("load_model(path)", f"path {PATH}", lambda g, v: narrows.load_model(v), NOT_PATHS),
    *one("load_model(path)", "cannot read the model .*missing: No such file", lambda g: narrows.load_model(g.missing)),
    *one("load_model(path)", ".* is a folder; give the file in it", lambda g: narrows.load_model(str(g.folder))),
    *one("load_model(path)", "cannot read the model .*text.txt: it is damaged", lambda g: narrows.load_model(g.text)),
    *each("read_description", f"path {PATH}", lambda g, v: narrows.read_description(v), NOT_PATHS),
    *one("read_description", "cannot read the model", lambda g: narrows.read_description(str(g.missing))),
    *one("read_description", "cannot read the model", lambda g: narrows.read_description(g.text)),
]


def fresh(good: Good) -> GatedVAE:
    """Return a model whose networks were not tried out yet."""
    return GatedVAE(good.encoder, good.decoder, N)


def checked(good: Good) -> GatedVAE:
    """Return a model whose networks were tried out."""
    model = fresh(good)
    model.check(good.x)
    return model


def miskept(good: Good) -> VAE:
    """Return a model that says that it kept three of its four dimensions."""
    model = good.vae.narrow(range(N))
    model.kept = [0, 1, 2]
    return model
