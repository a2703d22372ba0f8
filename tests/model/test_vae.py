"""Narrowing is exact, a saved model loads as the same model, and loading runs no code."""

import json
import pickle
import resource

import pytest
import torch
from safetensors.torch import load_file, save_file

from narrows._util.errors import NarrowsError
from narrows.model.storage import load_model, read_description, save_model
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig

NETWORKS = {
    "conv64": NetworkConfig("conv", (3, 64, 64), n=6, width=4),
    "conv28": NetworkConfig("conv", (1, 28, 28), n=6, width=4),
    "mlp": NetworkConfig("mlp", (20,), n=6, width=4, output="linear"),
    "direct": NetworkConfig("mlp", (20,), n=6, width=4, output="linear", direct=True),
    "conv direct": NetworkConfig("conv", (1, 28, 28), n=6, width=4, direct=True),
}


def make(name: str, generator: torch.Generator) -> tuple[GatedVAE, torch.Tensor]:
    """A model in float64 whose BatchNorm has seen data, and a batch."""
    torch.manual_seed(1)
    model = gated_vae(NETWORKS[name]).double()
    x = torch.rand(8, *NETWORKS[name].shape, generator=generator, dtype=torch.float64)
    model.scaling.fit(torch.full((20,), 0.5, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64))
    for _ in range(5):
        model.decode(model.encode(x).mean)
    return model.eval(), x


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4, 5], [2], [0, 5], [1, 2, 4], []], ids=str)
def test_the_narrowed_model_equals_the_hard_gated_one(name, kept, generator):
    model, x = make(name, generator)
    with torch.no_grad():
        model.gates.logits.fill_(-1.0)
        model.gates.logits[kept] = 0.3
    small = model.narrow()
    assert small.n == len(kept)
    assert small.kept == kept
    gated, narrow = model.encode(x), small.encode(x)
    torch.testing.assert_close(narrow.mean, gated.mean[:, kept], rtol=0, atol=1e-12)
    torch.testing.assert_close(narrow.log_std, gated.log_std[:, kept], rtol=0, atol=1e-12)
    torch.testing.assert_close(small.reconstruct(x), model.reconstruct(x), rtol=0, atol=1e-12)
    noise = torch.randn(8, 6, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        small.decode(narrow.draw(noise[:, kept])), model.decode(gated.draw(noise)), rtol=0, atol=1e-12
    )


def test_narrowing_leaves_the_original_alone(generator):
    model, x = make("conv28", generator)
    before = model.reconstruct(x)
    small = model.narrow([1, 3])
    with torch.no_grad():
        for parameter in small.parameters():
            parameter.zero_()
    assert torch.equal(model.reconstruct(x), before)


def test_a_narrowed_model_is_physically_smaller(generator):
    model, _ = make("mlp", generator)
    small = model.narrow([0, 3])
    assert small.encoder.head.weight.shape == (4, 32)
    assert small.decoder.stem.weight.shape == (32, 2)
    assert not any("gates" in name for name in small.state_dict())


def test_the_direct_path_alone_is_any_linear_code(generator):
    """With hidden layers that say nothing: projection onto six directions and back, as PCA does it."""
    model, x = make("direct", generator)
    directions = torch.linalg.qr(torch.randn(20, 6, generator=generator, dtype=torch.float64))[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.encoder.head.weight[:6, 32:] = directions.T
        model.decoder.stem.weight[32:] = directions
        model.gates.open(range(6))
    projected = 0.5 + (x - 0.5) @ directions @ directions.T  # about the mean that the scaling has
    torch.testing.assert_close(model.reconstruct(x), projected, rtol=0, atol=1e-12)


def test_models_saved_without_the_direct_entry_have_no_direct_path(generator, tmp_path):
    model, x = make("mlp", generator)
    path = tmp_path / "m.safetensors"
    save_model(model.float().narrow(), path)
    about = read_description(path)
    del about["network"]["direct"]
    save_file(load_file(path), path, {"narrows": json.dumps(about)})
    torch.testing.assert_close(load_model(path).reconstruct(x.float()), model.reconstruct(x.float()))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kept", [[1, 4], []], ids=str)
def test_a_saved_model_is_the_same_model(name, kept, generator, tmp_path):
    model, x = make(name, generator)
    small = model.float().narrow(kept)
    save_model(small, tmp_path / "m.safetensors", {"tau": 20.0})
    loaded = load_model(tmp_path / "m.safetensors")
    assert loaded.kept == kept
    assert torch.equal(loaded.reconstruct(x.float()), small.reconstruct(x.float()))
    assert read_description(tmp_path / "m.safetensors")["tau"] == 20.0


def test_loading_leaves_the_callers_randomness_alone(generator, tmp_path):
    model, _ = make("mlp", generator)
    save_model(model.float().narrow([0]), tmp_path / "m.safetensors")
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load_model(tmp_path / "m.safetensors")
    assert torch.equal(torch.rand(2), expected)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(NarrowsError, match=r"cannot read the model .*m\.safetensors"):
        load_model(path)
    with pytest.raises(NarrowsError, match="cannot read the model"):
        load_model(tmp_path / "missing.safetensors")


TAMPERED = {
    "n": ["4", 4.0, -1, True, 10**9, None],
    "shape": ["ab", [20.0], [], [10**12], [20, 1], [1, 2, 3, 4], None, [10**30]],
    "width": [10**7, 10**30, 0, "4", 4.0],
    "kind": ["evil", "conv", ["mlp"], None],
    "output": ["evil", 1],
    "direct": [True, 1, "no"],
    "more": [1],
}
TAMPERED_BESIDE = {
    "network": [None, [], "mlp", {}],
    "kept": [[9, "a"], [1], [1, 4, 5], [1, 1], [-1, 2], "ab", None, 3, [1.0, 4.0], [True, 2]],
    "tau": ["abc", -1, 0, [1], float("nan"), float("inf"), 10**400],
    "error": ["evil", ["squared"], None],
    "data": [3, None],
    "columns": [3, ["a"], [1] * 20],
    "units": [3, {}, {"shift": [0.0] * 20, "unit": [0.0] * 20}, {"shift": "x", "unit": [1.0] * 20}],
}


def tampered(path, change):
    about = read_description(path)
    change(about)
    save_file(load_file(path), path, {"narrows": json.dumps(about)})


@pytest.mark.parametrize(
    ("within", "name", "value"),
    [
        *((True, name, value) for name, values in TAMPERED.items() for value in values),
        *((False, name, value) for name, values in TAMPERED_BESIDE.items() for value in values),
    ],
    ids=lambda value: f"{value!r:.40}",
)
def test_impossible_descriptions_are_refused_in_one_line(within, name, value, generator, tmp_path):
    model, _ = make("mlp", generator)
    path = tmp_path / "m.safetensors"
    save_model(model.float().narrow([1, 4]), path)
    tampered(path, lambda about: (about["network"] if within else about).update({name: value}))
    with pytest.raises(NarrowsError) as caught:
        load_model(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert " must be " in text or "does not fit its own description" in text or "'more' that does not exist" in text


def test_nothing_is_built_if_description_and_tensors_disagree(generator, tmp_path):
    """A description of eight gigabytes over a few kilobytes of tensors: the network is never built."""
    model, _ = make("mlp", generator)
    path = tmp_path / "m.safetensors"
    save_model(model.float().narrow([1, 4]), path)
    tampered(path, lambda about: about["network"].update(width=4_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NarrowsError, match="does not fit its own description"):
        load_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "in kilobytes"


def test_a_model_without_a_network_or_with_nested_text_is_refused(generator, tmp_path):
    model, _ = make("mlp", generator)
    path = tmp_path / "m.safetensors"
    save_model(model.float().narrow([1, 4]), path)
    tensors = load_file(path)
    tampered(path, lambda about: about.pop("network"))
    with pytest.raises(NarrowsError, match="network must be an object; it is None"):
        load_model(path)
    save_file(tensors, path, {"narrows": "[" * 100_000})
    with pytest.raises(NarrowsError, match="cannot read the model"):
        load_model(path)
    save_file({"a": torch.zeros(2)}, path, {"narrows": json.dumps({"format": "narrows.vae.2"})})
    with pytest.raises(NarrowsError, match="damaged description"):
        load_model(path)


def test_weights_that_are_not_floats_are_refused(generator, tmp_path):
    model, _ = make("mlp", generator)
    path = tmp_path / "m.safetensors"
    save_model(model.float().narrow([1, 4]), path)
    about = read_description(path)
    save_file({name: t.to(torch.int32) for name, t in load_file(path).items()}, path, {"narrows": json.dumps(about)})
    with pytest.raises(NarrowsError, match="has weights of type I32"):
        load_model(path)


def test_extreme_encoder_outputs_stay_finite(generator):
    model, x = make("mlp", generator)
    with torch.no_grad():
        model.encoder.head.bias.fill_(1e6)
    posterior = model.encode(x)
    assert torch.isfinite(posterior.draw(torch.ones_like(posterior.mean))).all()


def test_samples_come_from_the_given_generator(generator):
    model, _ = make("conv28", generator)
    one = model.sample(3, torch.Generator().manual_seed(5))
    assert one.shape == (3, 1, 28, 28)
    assert torch.equal(one, model.sample(3, torch.Generator().manual_seed(5)))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(NarrowsError, match=r"is a folder; give the file in it: .*model\.safetensors$"):
        load_model(tmp_path)


def test_no_codes_give_no_images():
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("conv", (1, 28, 28), 3, width=4)).narrow().eval()
    assert model.decode(torch.empty(0, 3)).shape == (0, 1, 28, 28)
