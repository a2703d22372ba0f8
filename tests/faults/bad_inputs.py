"""Files and folders of tests/faults/bad_files.py, and a pattern of the line that says what is wrong with each."""

import re

DTYPE = r"dtype .* is not accepted \(accepted: uint8, .*convert with"
NOT_NPY = r"the file is damaged or not a \.npy file .*; write it again with numpy"
NOT_NPZ = r"the file is damaged or not a \.npz file .*; write it again with numpy"
NOT_HDF5 = r"the file is damaged or not an HDF5 file .*; fetch or write it again"
NOT_PARQUET = r"the file is damaged or not a Parquet file .*; fetch or write it again"
LACKING = r"column '\w' lacks 200 of 200 values .*, first in row 1; fill them in"
UNKNOWN_KIND = r"files of this kind are not read \(known: \.npy, .*save"
NOT_THERE = "no such file, folder or set: "
BROKEN_LINK = "is a broken symlink; fix or remove it"
PIPE = "is a (named pipe|device), not a file; write its content to a file and give that"
FEW = r"training examples do not fill one batch of 64; use a smaller --batch or more data"
NO_IMAGES = r"holds no images \(\.png, .*use a folder that holds images"

DATA = {
    "@few.npy": FEW,
    "@nan.npy": "1 of 1200 values are NaN or infinite, first in example 7; fill them in.* --missing mask",
    "@infinite.npy": "1 of 1200 values are NaN or infinite, first in example 7; fill them in",
    "@outside.npy": r"values range from .* to 3.5, outside \[0, 1\]; rescale them, or allow any range with --values",
    "@negative.npy": r"values range from -0.5 .*, outside \[0, 1\]; rescale them",
    "@huge.npy": r"outside \[0, 1\]; rescale them",
    "@double_huge.npy": r"outside \[0, 1\]; rescale them",
    **{f"@{name}.npy": DTYPE for name in ("int64", "complex", "text", "dates", "objects", "codes_text")},
    "@records.npy": r"an array with fields \(a, b\) is not accepted; make them columns with numpy",
    "@pipe.npy": PIPE,
    "@rank0.npy": r"has rank 0; reshape it to \(N, D\)",
    "@rank1.npy": r"has rank 1; reshape it to \(N, D\)",
    "@rank5.npy": r"has rank 5; reshape it to \(N, D\)",
    "@no_rows.npy": "is empty; every axis needs a length of 1 or more",
    "@no_columns.npy": "is empty; every axis needs a length of 1 or more",
    "@long_channels.npy": r"has no axis of 1, 3 or 4 channels; arrange images as \(N, H, W, C\)",
    "@empty.npy": NOT_NPY,
    "@words.npy": NOT_NPY,
    "@truncated.npy": NOT_NPY,
    "@only_magic.npy": NOT_NPY,
    "@header.npy": NOT_NPY,
    "@negative_shape.npy": r"negative_shape\.npy",
    "@claims_more.npy": NOT_NPY,
    "@\udcff\udcfe.npy": r"\\udcff\\udcfe\.npy: the file is damaged",
    "@two.npz": r"holds several arrays \(first, second\); choose one, for example .*two\.npz::first",
    "@two.npz::third": "holds no array 'third'; choose one of its keys: first, second",
    "@two.npz::": "holds several arrays",
    "@one.npz::x::y": "holds no array 'x::y'; choose one of its keys: x",
    "@nothing.npz": r"holds no arrays; write it again with numpy\.savez",
    "@truncated.npz": NOT_NPZ,
    "@empty.npz": NOT_NPZ,
    "@words.npz": NOT_NPZ,
    "@strange.npz": NOT_NPZ,
    "@notes.npz": r"notes\.npz",
    "@good.npy::x": r"holds one array without a name; leave out ::x",
    "@good.csv::a": r"holds one array without a name; leave out ::a",
    "@two.h5": r"holds several arrays \(first .*; choose one, for example .*two\.h5::first",
    "@two.h5::third": "holds no array 'third', .*; choose one of its keys: first",
    "@two.h5::group": "is a group, not an array; choose an array: group/inside",
    "@two.h5::word": DTYPE,
    "@nothing.h5": "holds no array of rank 2 or more; write one",
    "@empty.h5": NOT_HDF5,
    "@words.h5": NOT_HDF5,
    "@words.h5::x": NOT_HDF5,
    "@truncated.h5": NOT_HDF5,
    "@empty.parquet": NOT_PARQUET,
    "@words.parquet": NOT_PARQUET,
    "@truncated.parquet": NOT_PARQUET,
    "@empty.csv": "is empty; check how it was written",
    "@blank.csv": "is empty; check how it was written",
    "@only_header.csv": "holds no rows of values; check how it was written",
    "@ragged.csv": r"row 2 has 3 fields, not 2 as the first line \('3,4,5'\); fix it",
    "@short.csv": "row 100 has 1 fields, not 2 as the first line",
    "@texts.csv": r"column 'a' holds text, not numbers \('x' in row 1\); no other column holds numbers",
    "@gaps.csv": LACKING,
    "@overflow.csv": LACKING,
    "@not_numbers.csv": LACKING,
    "@digits.csv": LACKING,
    "@comma_decimals.csv": r"column 'a' writes numbers with a comma \('1,5' in row 1\); write decimals with a point",
    "@same_names.csv": "has 2 columns called 'a'; give each column a different name",
    "@open_quote.csv": r"open_quote\.csv",
    "@utf16.csv": "is not UTF-8 text .*; save it as CSV in UTF-8",
    "@binary.csv": "is not UTF-8 text .*; save it as CSV in UTF-8",
    "@zeros.csv": "column 'b' holds text, not numbers",
    "@words.csv.gz": "the file is damaged or not a CSV file",
    "@pictures_none": NO_IMAGES,
    "@pictures_notes": NO_IMAGES,
    "@pictures_broken": r"x\.png is a broken image .*; repair or remove it; --skip-broken leaves such files out",
    "@pictures_sizes": r"images of 2 sizes, .*; scale all to one size with --image-size 64",
    "@folder.npy": NO_IMAGES,
    "@nothing": NO_IMAGES,
    "@data.xyz": UNKNOWN_KIND,
    "@no_suffix": UNKNOWN_KIND,
    "@data.pkl": UNKNOWN_KIND,
    "@data.pt": UNKNOWN_KIND,
    "@in the way": UNKNOWN_KIND,
    "@run/model.safetensors": UNKNOWN_KIND,
    "@run/config.json": UNKNOWN_KIND,
    "/dev/null": r"/dev/null",
    "/dev/zero": r"/dev/zero",
    "@dangling.npy": BROKEN_LINK,
    "@circle.npy": BROKEN_LINK,
    "@circle": BROKEN_LINK,
    "@dangling": BROKEN_LINK,
    "@missing.npy": NOT_THERE,
    "@missing/x.npy": NOT_THERE,
    "@in the way/x.npy": NOT_THERE,
    "~nobody/x.npy": NOT_THERE,
    "a" * 300: NOT_THERE,
    "a" * 5000 + ".npy": NOT_THERE,
    "x/" * 3000: NOT_THERE,
    "http://127.0.0.1:9/y.npy": r"^cannot read http://127\.0\.0\.1:9/y\.npy \(Connection refused; 3 tries\); check",
    "https://h.example/y.npy?key=SECRET": r"^https://h\.example/y\.npy: an address with a password or a query",
    "https://h.example/*.npy": "web servers have no lists of files; give a range",
    "nosuch://a/b.npy": "use s3://, gs://, https:// or hf://",
    "*.npy": r"^no shards match \*\.npy; check the pattern",
    "part-{1..3}.npy": r"^the shard part-1\.npy does not exist",
    "\x1b[31m.npy": r"'\\x1b\[31m\.npy'",
    "mnsit": "no such file, folder or set: 'mnsit' .*did you mean 'mnist'",
    "hf:": "hf: has no name; write hf:NAME",
}
"""What `narrows train` cannot read."""

ENCODED = {
    "@wide.npy": "^wide has examples of 9; the model .* takes 6",
    "@squares.npy": "^squares has examples of 1x16x16; the model .* takes 6",
    "@good.csv": "column 'name' holds text",
    "@outside.npy": r"outside \[0, 1\]; the model was trained on values in \[0, 1\]; rescale these in the same way",
    "@nan.npy": "NaN or infinite, first in example 7",
    "@rank1.npy": "has rank 1",
    "@nothing": NO_IMAGES,
    "@words.npz": NOT_NPZ,
    "@truncated.npy": NOT_NPY,
    "@in the way": UNKNOWN_KIND,
    "@missing.npy": NOT_THERE,
    "@dangling.npy": BROKEN_LINK,
}
"""What `narrows encode` and `narrows reconstruct` cannot read with a model of six values."""

CODES = {
    "@codes_nan.npy": "^code 0 is not finite; codes are finite numbers",
    "@codes_wide.npy": r"^codes of .* are numbers, \(N, 4\); these are float32 \(5, 40\)",
    "@codes_none.npy": "^the file of codes has 0 rows; it needs at least one",
    "@codes_text.npy": r"^codes of .* are numbers, \(N, 4\); these are <U1",
    "@rank0.npy": r"these are float32 \(\)",
    "@rank1.npy": r"these are float32 \(200,\)",
    "@objects.npy": DTYPE,
    "@good.csv": r"the file is damaged or not a \.npy file ",
    "@empty.npy": r"the file is damaged or not a \.npy file",
    "@words.npy": r"the file is damaged or not a \.npy file",
    "@truncated.npy": r"the file is damaged or not a \.npy file",
    "@one.npz": r"is an archive \(\.npz\); save one array of it with numpy\.save",
    "@missing.npy": r"cannot be read \(No such file or directory\); check the path",
    "@nothing": r"cannot be read \(Is a directory\); check the path",
    "@circle.npy": "Too many levels of symbolic links",
    "@pipe.npy": PIPE,
    "/dev/zero": PIPE,
}
"""What `narrows decode` cannot read as codes of four numbers."""

CONFIGS = {
    "@empty.json": "is damaged: it is not valid JSON",
    "@half.json": r"is damaged: it is not valid JSON .*line 1 column 10",
    "@list.json": "it is not one object of settings",
    "@number.json": "it is not one object of settings",
    "@null.json": "it is not one object of settings",
    "@twice.json": r"--n must be at least 1; it is 0",
    "@utf16.json": "is damaged",
    "@latin.json": "is damaged",
    "@bytes.json": "is damaged",
    "@nan.json": r"is damaged: it is not valid JSON \(NaN is not a number\)",
    "@inf.json": r"is damaged: it is not valid JSON \(Infinity is not a number\)",
    "@unknown.json": r"has an unknown setting 'taw'; did you mean 'tau'\?",
    "@strange.json": "has an unknown setting ''; the settings are those of `narrows train`",
    "@escape.json": r"has an unknown setting '\\+x1b\[31m'; the settings are those of `narrows train`",
    "@deep.json": "deep.json is damaged: it is not valid JSON",
    "@deep.toml": "deep.toml is damaged: it is not valid TOML",
    "@digits.json": "--tau must be a number",
    "@many_digits.json": "many_digits.json",
    "@digits.toml": "--aim must be a number",
    "@exponent.json": "--tau must be a number",
    "@fraction.json": "--n must be a whole number; it is 2.5",
    "@fraction_text.json": "--n must be a whole number; it is '2.5e0'",
    "@bom.json": "bom.json",
    "@long_name.json": r"has an unknown setting 'x{20,80}\.\.\.x+'; the settings are those",
    "@long_text.json": r"--recipe must be one of fast, paper, plain; it is 'x{20,80}\.\.\.x+'",
    "@escape_value.json": r"--recipe must be one of fast, paper, plain; it is '\\x1b\[31m'",
    "@half.toml": "is damaged: it is not valid TOML",
    "@words.toml": r"is damaged: it is not valid TOML .*line 1, column 7",
    "@section.toml": "has an unknown setting 'train'",
    "@twice.toml": r"is damaged: it is not valid TOML .*line 2",
    "@utf16.toml": "is damaged",
    "@bytes.toml": "is damaged",
    "@date.toml": r"--tau must be a number; it is datetime\.date",
    "@folder.json": "^cannot read the config file .*: Is a directory",
    "@missing.toml": "^cannot read the config file .*: No such file or directory",
    "@in the way/x.json": "^cannot read the config file .*: Not a directory",
    "@circle": "^cannot read the config file .*: Too many levels of symbolic links",
    "@dangling": "^cannot read the config file .*: No such file or directory",
    "@run": "^cannot read the config file .*: Is a directory",
    "@good.npy": "^the config file .*good.npy is damaged",
    "@run/result.json": "has an unknown setting 'dims'; the settings are those of `narrows train`",
    "/dev/null": PIPE,
    "/dev/zero": PIPE,
    "@pipe.npy": PIPE,
    "a" * 300: "File name too long",
}
"""What --config cannot read."""

NO_RUN = "is not a run folder: it has no config.json; check the path"
MISSING_RUN = "is not a run folder: it does not exist; check the path"
NOT_HERE = r"config\.json names data that are not on this machine: /nowhere/x\.npy; write where they are now as its"
NO_MODEL = "has no model yet; continue it with `narrows resume "
BAD_MODEL = "^cannot read the model .*: it is damaged, or not a model of narrows .*; copy or train it again"
SHOWN = [["show"], ["resume"], ["report"], ["watch"]]
"""Commands that read the records of a run."""
USED = [
    ["encode", "@good.npy", "-o", "z.npy"],
    ["decode", "@codes.npy", "-o", "x.npy"],
    ["reconstruct", "@good.npy", "-o", "x.npy"],
    ["sample", "-o", "x.npy"],
    ["sample", "--sampler", "mixture", "-o", "x.npy"],
    ["evaluate"],
    ["export", "--to", "torch", "-o", "e"],
    ["explore"],
]
"""Commands that use the model of a run."""
RUNS: dict[str, list[tuple[list[list[str]], str]]] = {
    "@nothing": [([*SHOWN, *USED], "is not a run folder: it is empty; check the path")],
    "@run_no_config": [([*SHOWN, *USED], NO_RUN)],
    "@missing": [([*SHOWN, *USED], MISSING_RUN)],
    "@dangling": [([*SHOWN, *USED], MISSING_RUN)],
    "@circle": [([*SHOWN, *USED], MISSING_RUN)],
    "@pipe.npy": [(SHOWN, NO_RUN), (USED, PIPE)],
    "/dev/null": [(SHOWN, NO_RUN), (USED, PIPE)],
    "@good.npy": [(SHOWN, NO_RUN), (USED, BAD_MODEL)],
    "@in the way": [(SHOWN, NO_RUN), (USED, BAD_MODEL)],
    "@run/config.json": [(SHOWN, NO_RUN), (USED, BAD_MODEL)],
    "@run/model.safetensors": [(SHOWN, NO_RUN), ([["evaluate"]], "pass the run's folder instead")],
    "@run_half_config": [([*SHOWN, *USED], "^the config file .*config.json is damaged: it is not valid JSON")],
    "@run_unknown_setting": [([*SHOWN, *USED], "config.json has an unknown setting 'taw'; did you mean 'tau'")],
    "@run_half_result": [(SHOWN[:3], r"result\.json is damaged .*delete it, and `narrows resume .*` writes it again")],
    "@run_list_result": [(SHOWN[:3], r"result\.json is damaged .*delete it, and `narrows resume .*` writes it again")],
    "@run_half_metrics": [([["show"], ["report"], ["watch"]], r"metrics\.csv is damaged .*only the curves need it")],
    "@run_no_checkpoint": [([["resume"]], "start it again"), (USED, NO_MODEL)],
    "@run_not_ended": [(USED, NO_MODEL), ([["show", "--json"]], "has no result yet; continue it with")],
    "@run_half_model": [([*USED, ["report"]], BAD_MODEL)],
    "@run_empty_model": [([*USED, ["report"]], BAD_MODEL)],
    "@run_text_model": [([*USED, ["report"]], BAD_MODEL)],
    "@run_no_model": [(USED, NO_MODEL)],
    "@run_moved_data": [([["encode", "-o", "z.npy"], ["reconstruct", "-o", "z.npy"], ["evaluate"]], NOT_HERE)],
    "@run_other_data": [
        (
            [["encode", "-o", "z.npy"], ["reconstruct", "-o", "z.npy"], ["evaluate"]],
            "^wide has examples of 9; the model",
        )
    ],
    "@front": [(USED[:-1], "is a front; choose one of its runs, such as .*front/tau-")],
    "@front_damaged": [(SHOWN, "front")],
    "@front_half": [(SHOWN, "front")],
    "a" * 300: [([*SHOWN, *USED], "File name too long; check the path")],
}
"""Folders of runs, and what each command says about them."""


def run_cases(run: str) -> list[tuple[list[str], str]]:
    return [([words[0], run, *words[1:]], line) for commands, line in RUNS[run] for words in commands]


def named(path: str, line: str) -> str:
    """Return a pattern that also asks for the name of the file, unless the pattern names it."""
    name = path.rpartition("/")[2].removeprefix("@").partition("::")[0]
    is_plain = re.fullmatch(r"[\w .]+", name) and len(name) < 50 and path.startswith("@")
    return rf"^(?=.*{re.escape(name.partition('.')[0])}).*{line}" if is_plain and not line.startswith("^") else line
