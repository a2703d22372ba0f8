"""encode, decode, reconstruct, sample, export."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from narrows.cli.app import app
from narrows.errors import NarrowsError

Out = Annotated[Path, Parameter(name=["--out", "-o"])]


@app.command
def encode(run: Path, data: str | None = None, /, *, out: Out) -> int:
    """Write the codes of data, (N, dimensions), into a .npy file.

    Parameters
    ----------
    run
        A run's folder, or a model file.
    data
        As for `narrows train`; by default the run's own.
    out
        The .npy file.
    """
    from narrows import using
    from narrows.report.live import make_loading

    trained = using.open_trained(run)
    with closing(make_loading()) as loading:
        read = using.open_data(trained, data, loading)
        shape = using.write(out, using.encode(trained, read, loading))
    print(f"{shape[0]:,} codes of {shape[1]} numbers: {out}")
    return 0


@app.command
def decode(run: Path, codes: Path, /, *, out: Out) -> int:
    """Write what codes stand for into a .npy file.

    Parameters
    ----------
    run
        A run's folder, or a model file.
    codes
        A .npy file, (N, dimensions), as `narrows encode` writes it.
    out
        The .npy file.
    """
    from narrows import using
    from narrows.report.live import make_loading

    trained = using.open_trained(run)
    rows = using.read_codes(codes)
    with closing(make_loading()) as loading:
        shape = using.write(out, using.decode(trained, rows, loading))
    print(f"{shape[0]:,} examples of {'x'.join(map(str, shape[1:]))}: {out}")
    return 0


@app.command
def reconstruct(run: Path, data: str | None = None, /, *, out: Out) -> int:
    """Write reconstructions of data into a .npy file, and say how large the error is.

    Parameters
    ----------
    run
        A run's folder, or a model file.
    data
        As for `narrows train`; by default the run's own.
    out
        The .npy file.
    """
    from narrows import using
    from narrows.report.live import make_loading

    trained = using.open_trained(run)
    errors: list[float] = []
    with closing(make_loading()) as loading:
        read = using.open_data(trained, data, loading)
        made = using.reconstruct(trained, read, loading, lambda batch: errors.extend(batch.tolist()))
        shape = using.write(out, made)
    print(f"{shape[0]:,} reconstructions: {out}")
    error = f"{trained.about.get('error', 'squared')} error of one input"
    unit = ", in the columns' own standard deviations or ranges" if "units" in trained.about else ""
    promise = f"; tau {trained.about['tau']:g}" if trained.about.get("tau") is not None else ""
    print(f"{error}, decoding the mean{unit}: {sum(errors) / len(errors):.4g}{promise}")
    return 0


@app.command
def sample(
    run: Path,
    /,
    *,
    sampler: Literal["prior", "gaussian", "mixture"] = "prior",
    components: int = 10,
    count: int = 64,
    seed: int = 0,
    out: Out,
) -> int:
    """Write new examples into a .npy file.

    Parameters
    ----------
    run
        A run's folder, or (prior) a model file.
    sampler
        Where their codes come from: the prior N(0, 1), or one Gaussian or a mixture of them, fitted to the codes of
        the run's training split (of 20,000 examples at most).
    components
        Of the mixture.
    count
        How many.
    seed
        The same seed gives the same examples.
    out
        The .npy file.
    """
    from narrows import using
    from narrows.report.live import make_loading

    if count < 1:
        raise NarrowsError(f"--count must be at least 1; it is {count}")
    if not 0 <= seed < 2**63:
        raise NarrowsError(f"--seed must be between 0 and 2^63; it is {seed}")
    trained = using.open_trained(run)
    with closing(make_loading()) as loading:
        using.check_target(out)  # before a mixture is fitted for nothing
        drawn = using.make_sampler(trained, sampler, components, seed, loading)
        shape = using.write(out, using.sample(trained, count, seed, loading, drawn))
    print(f"{shape[0]:,} samples of {'x'.join(map(str, shape[1:]))}: {out}")
    return 0


@app.command
def export(run: Path, /, *, to: Literal["onnx", "torch", "safetensors"], out: Out) -> int:
    """Write the model for other programs, with its scaling inside: encoder and decoder, batches of any size.

    Parameters
    ----------
    run
        A run's folder, or a model file.
    to
        onnx: encoder.onnx and decoder.onnx; torch: the same as programs for torch.export.load; safetensors: the model
        file with its description beside it.
    out
        Folder, new or empty.
    """
    from narrows import exporting, using

    files = exporting.export(using.open_trained(run), to, out)
    for file in files:
        print(file)
    return 0
