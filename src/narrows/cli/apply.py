"""encode, decode, reconstruct, impute, sample, export: a trained model in use."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import say
from narrows._util.progress import Progress
from narrows.cli.app import TrustData, app

if TYPE_CHECKING:
    from narrows.inference.trained import Trained

Run = Annotated[Path, Parameter(help="A run's folder, or a model file.")]
Source = Annotated[str | None, Parameter(help="As for `narrows train`; by default the run's training data.")]
Out = Annotated[Path, Parameter(name=["--out", "-o"], help="The .npy file to write.")]
OutFilled = Annotated[
    Path, Parameter(name=["--out", "-o"], help="The file to write: a table as the one that is read, or a .npy file.")
]
OutFolder = Annotated[Path, Parameter(name=["--out", "-o"], help="A new or empty folder.")]


@app.command
def encode(run: Run, data: Source = None, /, *, out: Out, trust_data: TrustData = False) -> None:
    """Write the codes of data, (N, dimensions), into a .npy file."""
    from narrows.inference import stream, trained

    with _opened(run, out, trust_data) as (model, progress):
        read = trained.open_data(model, data, progress)
        shape = stream.write(out, stream.encode(model, read, progress))
    say(f"{shape[0]:,} codes of {shape[1]} numbers: {out}")


@app.command
def decode(run: Run, codes: Path, /, *, out: Out) -> None:
    """Write the examples that codes are decoded to into a .npy file.

    Parameters
    ----------
    codes
        A .npy file, (N, dimensions), as `narrows encode` writes it.
    """
    from narrows.inference import stream

    with _opened(run, out) as (model, progress):
        shape = stream.write(out, stream.decode(model, stream.read_codes(codes), progress))
    say(f"{shape[0]:,} examples of {'x'.join(map(str, shape[1:]))}: {out}")


@app.command
def reconstruct(run: Run, data: Source = None, /, *, out: Out, trust_data: TrustData = False) -> None:
    """Write reconstructions of data into a .npy file, and print their mean error."""
    from narrows.data.statistics import Moments
    from narrows.inference import stream, trained

    errors = Moments()
    with _opened(run, out, trust_data) as (model, progress):
        read = trained.open_data(model, data, progress)
        shape = stream.write(out, stream.reconstruct(model, read, errors, progress))
    unit = ", in each column's standard deviation or range" if "units" in model.about else ""
    kind = f"{model.error_name} error"
    if model.blocks:
        kind, unit = "error", "; a column has 1 if only its mean or its frequencies are known"
    promise = "" if model.tau is None else f" (tau {model.tau:g})"
    say(f"{shape[0]:,} reconstructions: {out}")
    say(f"mean {kind} per input, decoding the mean{unit}: {errors.mean:.4g}{promise}")


@app.command
def impute(run: Run, data: Source = None, /, *, out: OutFilled, trust_data: TrustData = False) -> None:
    """Write data with reconstructions in place of missing values: a table as a table, other data as a .npy file.

    The run must have been trained with --missing mask, on data that lacked values.
    """
    from narrows.data.load import kind_of
    from narrows.inference import stream, trained
    from narrows.inference.filled_table import fill_table

    with _opened(run, out, trust_data, any_ending=True) as (model, progress):
        if not model.masked:
            raise NarrowsError(
                f"{run} was trained on data without missing values, so it cannot fill any in; train one with "
                f"{setting('missing', 'mask')} on data that lack some"
            )
        named = data or (model.config.data if model.config else "")
        if named and kind_of(named) == "table" and Path(named).is_file():
            if data is None:
                trained.open_data(model, None, progress)  # only the data it was trained on
            rows, count = fill_table(model, Path(named), out, progress)
        else:
            stream.check_output(out, ".npy")
            read = trained.open_data(model, data, progress)
            rows, count = stream.write(out, stream.impute(model, read, progress))[0], read.missing
    say(f"{count:,} values filled in, in {rows:,} rows: {out}")


@app.command
def sample(
    run: Run,
    /,
    *,
    sampler: Literal["prior", "gaussian", "mixture"] = "prior",
    components: int = 10,
    count: int = 64,
    seed: int = 0,
    out: Out,
    trust_data: TrustData = False,
) -> None:
    """Write new examples into a .npy file.

    Parameters
    ----------
    sampler
        Where their codes come from: the prior N(0, 1), or a Gaussian or a mixture of Gaussians, fitted to the codes of
        the run's training split (at most 20,000 of them). A model file alone has only the prior.
    components
        Components of the mixture.
    count
        How many examples.
    seed
        The same seed gives the same examples.
    """
    from narrows.inference import sampling, stream
    from narrows.inference.trained import layout

    if count < 1:
        raise NarrowsError(f"{setting('count')} must be at least 1; it is {count}")
    sampling.check_seed(seed)
    with _opened(run, out, trust_data) as (model, progress):
        stream.check_room(out, 4 * count * math.prod(model.shape), "count", count)
        fitted = sampling.make_sampler(model, sampler, components, seed, progress)
        examples = sampling.draw_examples(model.model, fitted, count, seed, progress)
        shape = stream.write(out, map(layout, examples))
    say(f"{shape[0]:,} samples of {'x'.join(map(str, shape[1:]))}: {out}")


@app.command
def export(run: Run, /, *, to: Literal["onnx", "torch", "safetensors"], out: OutFolder) -> None:
    """Write the model for other programs: encoder and decoder, with the scaling inside, for batches of any size.

    Parameters
    ----------
    to
        onnx: encoder.onnx and decoder.onnx; torch: the same as programs for torch.export.load; safetensors: the model
        file with its description beside it.
    """
    from narrows.inference.export import export
    from narrows.inference.trained import open_trained

    say("\n".join(map(str, export(open_trained(run), to, out))))


@contextmanager
def _opened(
    run: Path, out: Path, trust_data: bool = False, any_ending: bool = False
) -> "Iterator[tuple[Trained, Progress]]":
    """Open the model and what shows progress; raise first if `out` cannot be written."""
    from narrows.inference.stream import check_output
    from narrows.inference.trained import open_trained
    from narrows.report.live.listeners import show_loading

    check_output(out, *([out.suffix] if any_ending else [".npy"]))
    with show_loading() as progress:
        yield open_trained(run, trust_data), progress
