"""Torch datasets: every kind of item, gathered in memory or in a file, and the text of every error."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from narrows.data.readers.torch_datasets import from_dataset
from refusals import refused

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 5, 6, 3), dtype=np.uint8)
FLOATS = np.random.default_rng(1).random((7, 4), dtype=np.float32)


class Items(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Stream(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def served(data):
    return data.examples.batch(np.arange(len(data.examples)))


def refusal(dataset, **options):
    return refused(from_dataset, dataset, name="mine", **options)


@pytest.mark.parametrize("wrap", [lambda a: a, torch.from_numpy, lambda a: torch.from_numpy(a).requires_grad_()])
@pytest.mark.parametrize(
    "hold",
    [
        lambda x: x,
        lambda x: (x, 3),
        lambda x: [x, "label"],
        lambda x: ((x, 1), 2),
        lambda x: {"label": 3, "image": x},
        lambda x: {"label": torch.ones(2), "x": x},
        lambda x: {"features": x, "label": 3},
    ],
)
def test_items_of_every_kind(wrap, hold):
    data = from_dataset(Items([hold(wrap(row)) for row in FLOATS]), name="mine")
    assert (data.name, data.values, data.examples.shape) == ("mine", "unit", (4,))
    np.testing.assert_array_equal(served(data).numpy(), FLOATS)


def test_pictures_as_torchvision_gives_them():
    floats = np.float32(PIXELS) / np.float32(255)
    expected = torch.from_numpy(floats).permute(0, 3, 1, 2)
    first = from_dataset(Items([(image.contiguous(), 0) for image in expected]))
    assert first.examples.shape == (3, 5, 6)
    torch.testing.assert_close(served(first), expected, rtol=0, atol=0)
    last = from_dataset(Items(list(PIXELS)))
    torch.testing.assert_close(served(last), expected, rtol=0, atol=1e-7)


def test_pil_images():
    data = from_dataset(Items([(Image.fromarray(image), 1) for image in PIXELS]))
    np.testing.assert_array_equal(data.examples.array, PIXELS)
    grey = from_dataset(Items([Image.fromarray(image[..., 0]) for image in PIXELS]))
    assert grey.examples.shape == (1, 5, 6)
    np.testing.assert_array_equal(grey.examples.array, PIXELS[..., :1])


def test_a_tensor_dataset_is_not_copied():
    tensor = torch.from_numpy(FLOATS.copy())
    data = from_dataset(TensorDataset(tensor, torch.zeros(7)), name="mine")
    assert data.examples.array.ctypes.data == tensor.data_ptr()


def test_subsets_keep_their_order():
    data = from_dataset(Subset(Items(FLOATS), [5, 0, 5]))
    np.testing.assert_array_equal(served(data).numpy(), FLOATS[[5, 0, 5]])


def test_streams_that_end():
    calls = []
    data = from_dataset(Stream(FLOATS), progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(served(data).numpy(), FLOATS)
    assert isinstance(data.examples.array.base, np.memmap)
    assert calls == [("reading the dataset", len(FLOATS), 0)]  # the total is unknown


def test_what_is_too_large_for_memory_goes_through_a_nameless_file(tmp_path, monkeypatch):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    calls = []
    reversed_rows = [row[::-1] for row in PIXELS]
    data = from_dataset(Items(reversed_rows), progress=lambda *call: calls.append(call))
    assert isinstance(data.examples.array.base, np.memmap)
    np.testing.assert_array_equal(data.examples.array, PIXELS[:, ::-1])
    assert os.listdir(tmp_path) == []
    assert calls == [("reading the dataset", 7, 7)]


def test_progress_in_memory():
    calls = []
    from_dataset(Items(FLOATS), progress=lambda *call: calls.append(call))
    assert calls == [("reading the dataset", 7, 7)]


def test_a_full_disk_is_one_line():
    code = (
        "import resource, signal, numpy as np, narrows.data.cache as cache\n"
        "from narrows.data.readers.torch_datasets import from_dataset\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "cache.MEMORY_SHARE = 0.0\n"
        "try: from_dataset(np.zeros((100, 100), np.uint8), name='mine')\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mine: the temporary file cannot take items 0 to 99 (File too large); make room in ")


def test_values_are_checked_as_in_arrays():
    assert "mine: values range from 0 to 2, outside [0, 1]" in refusal(Items([np.zeros(3), np.full(3, 2.0)]))
    assert from_dataset(Items([np.zeros(3), np.full(3, 2.0)]), values="any").values == "any"
    assert "first in example 1" in refusal(Items([np.zeros(3), np.full(3, np.nan)]))


def test_items_that_differ():
    assert refusal(Items([np.zeros(3), np.zeros(3), np.zeros(4)])) == (
        "mine: item 2 has shape (4,) and dtype float64, item 0 has (3,) and float64; "
        "give all items one shape and dtype in the dataset's transform"
    )
    assert "item 1 has shape (3,) and dtype float32, item 0 has (3,) and uint8" in refusal(
        Items([np.zeros(3, np.uint8), np.zeros(3, np.float32)])
    )
    assert "item 1 has shape (8, 8, 3) and dtype uint8, item 0 has (8, 8, 1)" in refusal(
        Items([Image.new("L", (8, 8)), Image.new("RGB", (8, 8))])
    )


def test_a_wrong_kind_is_an_error_before_the_rest_is_read():
    def items():
        yield torch.zeros(3, dtype=torch.int64)
        raise AssertionError("must not be read")

    assert refusal(Stream(items())).startswith("mine: dtype int64 is not accepted")
    assert "mine: item 0: dtype torch.bfloat16" in refusal(Items([torch.zeros(3, dtype=torch.bfloat16)]))
    assert "rank 5" in refusal(Items([np.zeros((1, 2, 3, 4))]))
    assert "mine: item 0: an image of mode F" in refusal(Items([Image.new("F", (8, 8))]))


@pytest.mark.parametrize(
    ("item", "kind"), [(3, "int"), ("x", "str"), ((), "tuple"), ([{}], "dict"), (None, "NoneType")]
)
def test_items_that_hold_no_array(item, kind):
    assert refusal(Items([item])) == (
        f"mine: item 0 leads to a {kind}; each item must be, or begin with, an array, a tensor or a PIL image"
    )


def test_what_is_no_dataset():
    assert "mine: a DataLoader gives batches, not examples; pass its dataset" in refusal(DataLoader(Items(FLOATS)))
    assert "mine: a Dataset is not a dataset of known length; give it __len__" in refusal(Dataset())
    assert "mine: a generator is not a dataset of known length" in refusal(row for row in FLOATS)
    assert "mine: the dataset is empty" in refusal(Items([]))
    assert "mine: the dataset is empty" in refusal(Stream([]))
