"""The table of bad command lines: the words, and a pattern of the one line that answers them.

In words and patterns `@` stands for the folder of tests/faults/bad_files.py. What every option must refuse is generated
from the settings themselves, so that a new setting is covered when it is added.
"""

import json
import re
from dataclasses import fields
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

from faults.bad_inputs import CODES, CONFIGS, DATA, ENCODED, RUNS, named, run_cases
from narrows.training.config import COUNTS, TrainConfig

Case = tuple[list[str], str]
TRAIN = ["train", "@good.npy"]
FRONT = ["front", "@good.npy", "--taus", "0.4,0.5"]
LONG = "a" * 300
"""A name that no file system takes."""
NINES = "9" * 30
KINDS = get_type_hints(TrainConfig)
NAMES = [field.name for field in fields(TrainConfig)]
OUT_OF_RANGE = {
    "tau": (["0", "-1", "nan", "inf", "-inf", "1e31", "1e-31", "1e400", "1e-400"], "a number above 0"),
    "tau_per_value": (["0", "-1", "nan", "inf", "1e31", "1e-400"], "a number above 0"),
    "learning_rate": (["0", "-1", "nan", "inf", "1e31"], "a number above 0"),
    "explained": (["0", "1", "-0.5", "95", "nan", "inf"], "between 0 and 1 (0.95 for 95%)"),
    "confidence": (["0", "0.49", "1", "95", "nan", "-1"], "from 0.5 to 0.999999 (0.95 for 95%)"),
    "aim": (["0", "-1", "1.01", "nan", "inf"], "above 0 and at most 1"),
    "seed": (["-1", str(2**63), NINES], "between 0 and 2^63"),
    "split_seed": (["-1", str(2**63), NINES], "between 0 and 2^63"),
    **{name: (["0", "-1", "-99", "-0"], "at least 1") for name in COUNTS},
    "checkpoint_every": (
        ["0", "-1", NINES, "", "four", "5x", "0s", "0.5s", "5 minutes", "1d", "m", "٣m"],
        "a number of batches, or a time such as 30s, 5m or 1h",
    ),
}
NOT_WHOLE = [
    *("", " ", "four", "2.5", "2.5e0", "1e3", "nan", "inf", "-inf", "1,000", "1 000", "0x", "9" * 5000, "true", "٣"),
]
NOT_A_NUMBER = ["", " ", "low", "0,5", "1e", "1.2.3", "0x1", "½", "٣", "1 2"]


def option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def allowed(name: str) -> list[Any]:
    """Return the types and the texts that a setting accepts."""
    kind = KINDS[name]
    options = [kind] if get_origin(kind) is Literal else list(get_args(kind)) or [kind]
    return [choice for one in options for choice in (get_args(one) if get_origin(one) is Literal else [one])]


def usable(name: str) -> str:
    """Return a word that is right for a setting."""
    first = next(choice for choice in allowed(name) if choice is not type(None))
    return {int: "3", float: "0.6", str: "a", bool: "true"}.get(first, first)


def of_kind(kind: type) -> list[str]:
    return [name for name in NAMES if kind in allowed(name)]


FLAGS = of_kind(bool)


def choices(name: str) -> list[str]:
    return [choice for choice in allowed(name) if isinstance(choice, str)]


def must_be(name: str, rule: str) -> str:
    return rf"^{option(name)} must be {re.escape(rule)}.*; it is "


def wrong_words(command: list[str], names: list[str], not_whole: list[str], not_numbers: list[str]) -> list[Case]:
    cases: list[Case] = []
    for name in names:
        words = [*command, option(name)]
        if int in allowed(name) and str not in allowed(name):
            cases += [([*words[:-1], f"{words[-1]}={bad}"], must_be(name, "a whole number")) for bad in not_whole]
        elif float in allowed(name):
            cases += [([*words[:-1], f"{words[-1]}={bad}"], must_be(name, "a number")) for bad in not_numbers]
        elif bool in allowed(name):
            cases += [([*words[:-1], f"{words[-1]}={bad}"], "is on when it is typed") for bad in ("maybe", "2")]
        elif choices(name):
            bad_choices = ("", "nope", choices(name)[0].upper(), f"{choices(name)[0]} ")
            listed = rf'^Invalid value ".*" for {option(name)}\. Choose from: "{choices(name)[0]}"'
            cases += [([*words, bad], listed) for bad in bad_choices]
    return cases


def without_value(command: list[str], names: list[str]) -> list[Case]:
    return [([*command, option(name)], rf"^{option(name)} needs a value; `narrows \w+ --help`") for name in names]


def twice(command: list[str], names: list[str]) -> list[Case]:
    return [
        ([*command, *(f"{option(name)}={usable(name)}" for _ in range(2))], f"^{option(name)} is given twice")
        for name in names
    ]


def out_of_range() -> list[Case]:
    cases = [
        ([*TRAIN, f"{option(name)}={bad}"], must_be(name, rule))
        for name, (words, rule) in OUT_OF_RANGE.items()
        for bad in words
    ]
    cases += [([*TRAIN, option(name), NINES], must_be(name, "at most ")) for name in COUNTS]
    return [*cases, ([*TRAIN, "--threads", "100000000"], r"^--threads must be at most 1,024; it is 100000000")]


SETTINGS: dict[str, tuple[str, str]] = {
    f"settings/{name}-{number}.json": (
        json.dumps({name: value}).replace('"ninety"', "9" * 400),
        rf"settings/{name}-{number}\.json: {option(name)} must be ",
    )
    for name in NAMES
    for number, value in enumerate([[], {}, [1], *([True, "four", {"a": 1}] if int in allowed(name) else [])])
}
"""Files with one setting of the wrong type -> their content and a pattern of the error."""

TYPED: dict[str, list[Case]] = {
    **{f"train {option(name)}": wrong_words(TRAIN, [name], NOT_WHOLE, NOT_A_NUMBER) for name in of_kind(int)},
    "train, numbers": wrong_words(TRAIN, of_kind(float), [], NOT_A_NUMBER),
    "train, choices": wrong_words(TRAIN, [n for n in NAMES if not {int, float, str} & set(allowed(n))], [], []),
    "train, out of range": out_of_range(),
    "train, no value": without_value(TRAIN, [name for name in NAMES if name not in FLAGS]),
    "train, twice": twice(TRAIN, [name for name in NAMES if name not in (*FLAGS, "data")]),
    "front, words": wrong_words(FRONT, NAMES, ["four"], ["low"]),
    "front, no value": without_value(FRONT, [name for name in NAMES if name not in FLAGS]),
    "front, twice": twice(FRONT, [name for name in NAMES if name not in (*FLAGS, "data")]),
    "config, wrong types": [([*TRAIN, "--config", f"@{path}"], words) for path, (_, words) in SETTINGS.items()],
}

UNKNOWN: list[Case] = [
    (["nosuch"], r"^there is no command 'nosuch'; `narrows --help` lists them$"),
    (["trian"], "did you mean 'train'"),
    ([""], "there is no command ''"),
    (["help"], "there is no command 'help'"),
    (["-v"], "there is no command '-v'"),
    (["data", "lst"], "`narrows data --help` lists them; did you mean 'list'"),
    (["train", "a\0b"], "has a NUL character"),
    (["train", "-"], "Unknown option: -"),
    (["train", "--", "--n"], "no such file, folder or set: '--n'"),
    *[([name, "--nosuch", "3"], "^Unknown option: --nosuch") for name in ("train", "report", "encode", "show")],
    (["train", "--nn", "3"], "Did you mean --n"),
    *[
        ([name, "@run", "one", "two", "-o", "x.npy"], "^unexpected on the command line: 'two'; ")
        for name in ("encode", "reconstruct")
    ],
    (["train", "a", "b"], "^unexpected on the command line: 'b'; `narrows train --help` lists what it takes$"),
    (["show", "@run", "x"], "^unexpected on the command line: 'x'"),
    (["data", "list", "x"], "^unexpected on the command line: 'x'"),
    (["data", "path", "a", "b"], "^unexpected on the command line: 'b'"),
    (["front", "@good.npy"], "^`narrows front` needs --taus; `narrows front --help` says what it is"),
    (["data", "get"], "^`narrows data get` needs NAME"),
    (["reproduce"], "^`narrows reproduce` needs EXPERIMENT"),
    (["report"], "^report needs the folder of a run, such as"),
    (["export", "@run", "-o", "e"], "needs --to"),
    (["decode", "@run", "-o", "x.npy"], "needs CODES"),
    *[
        ([name], f"^`narrows {name}` needs RUN")
        for name in ("resume", "show", "watch", "encode", "decode", "sample", "reconstruct", "export", "evaluate")
    ],
    *[([name, "@run"], f"^`narrows {name}` needs --out") for name in ("encode", "reconstruct", "sample")],
    *[
        ([name, ""], "^RUN is empty; name a path")
        for name in ("resume", "show", "watch", "evaluate", "explore")
    ],
    *[([*words, ""], "^(DATA|--data|--config|--out) is empty; name a path") for words in (
        ["train"], ["train", "--data"], [*TRAIN, "--config"], [*TRAIN, "--out"], ["sample", "@run", "-o"],
        ["export", "@run", "--to", "torch", "-o"], ["report", "@run", "-o"], ["reproduce", "table", "--out"],
        [*FRONT, "--out"], ["encode", "@run", "-o"],
    )],
    *[([name, "@run", f"--{flag}=maybe"], f"^--{flag} is on when it is typed") for name, flag in (
        ("show", "json"), ("resume", "live"),
    )],
    (["reproduce", "table", "--resume=2"], "^--resume is on when it is typed"),
    *[([*TRAIN, f"--{flag}=2"], f"^--{flag} is on when it is typed") for flag in ("live", "resume")],
    (["bench", "--steps", "0"], "^--steps must be a whole number from 1 on; it is 0"),
    (["bench", "--steps", "many"], "^--steps must be a whole number; it is 'many'"),
    (["bench", "--device", "mps"], "^--device mps is not available on this machine; use --device cpu"),
    (["bench", "--device", "gpu"], '^Invalid value "gpu" for --device'),
    (["bench", "--compile=2"], "^--compile is on when it is typed"),
    (["bench", "x"], "^unexpected on the command line: 'x'; `narrows bench --help` lists what it takes$"),
]  # fmt: skip

COMBINED: list[Case] = [
    *[
        ([*TRAIN, one, "0.5", other, "0.6"], f"^give only one of {one}, {other}: each of them sets tau")
        for one, other in (("--tau", "--explained"), ("--tau", "--tau-per-value"), ("--tau-per-value", "--explained"))
    ],
    ([*TRAIN, "--tau", "1", "--as-good-as", "2"], "^give only one of --tau, --as-good-as"),
    *[
        ([*TRAIN, "--explained", "0.9", "--error", error], "^--explained is about squared errors and counts; ")
        for error in ("absolute", "cross-entropy")
    ],
    *[
        ([*TRAIN, name, value, "--recipe", recipe], f"^{name} {value} has no effect with --recipe {recipe}")
        for name, value, recipe in (
            ("--estimator", "disarm", "fast"), ("--gate-noise", "batch", "fast"), ("--effort", "thorough", "paper"),
            ("--estimator", "disarm", "plain"), ("--gate-noise", "batch", "plain"),
        )
    ],
    ([*TRAIN, "--tau", "1", "--constraint", "plain"], "^--constraint plain cannot be used with --recipe fast"),
    ([*TRAIN, "--data", "mnist"], "^the data are named twice, as .*good.npy and as mnist; leave one out"),
    *[([*words, "--resume"], "^--resume continues the run in a folder that you name; give --out") for words in (
        [*TRAIN, "--tau", "1"], FRONT,
    )],
    ([*TRAIN, "--tau", "1", "--out", "@run", "--resume"], "^.*run was started with other settings: --"),
    ([*FRONT, "--out", "@run", "--resume"], "^.*run holds a single run, not a front; choose another --out"),
    ([*TRAIN, "--tau", "1", "--checkpoint-every", "2.5"], "^--checkpoint-every must be a whole number; it is 2.5"),
    ([*TRAIN], "^good needs a promise about the error: --tau"),
    ([*TRAIN, "--error", "poisson"], "^good needs a promise about the error: --tau .*, of which .* is not noise"),
    ([*TRAIN, "--tau", "1", "--error", "poisson", "--scaling", "standard"], "^--error poisson is for counts as they"),
    (
        ["train", "@pictures_sizes", "--image-size=16", "--tau=1", "--batch=1", "--error", "negative-binomial"],
        "is for whole vectors of counts, .* has images",
    ),
    ([*TRAIN, "--tau", "1", "--network", "conv"], "^--network conv is for images with sides of 16 to 256"),
    ([*TRAIN, "--tau", "1", "--device", "mps"], "^--device mps is not available on this machine; use --device cpu"),
    ([*TRAIN, "--tau", "1", "--batch", "201"], "do not fill one batch of 201; use a smaller --batch or more data"),
    ([*TRAIN, "--tau", "1", "--n", "99999999999"], "--n must be a whole number from 0 to 1,000,000"),
    ([*TRAIN, "--tau", "1", "--width", "99999999999"], "--width must be a whole number from 1 to 1,000,000"),
    ([*TRAIN, "--tau", "1", "--n", "9999999", "--width", "99999"], "--n must be a whole number from 0 to 1,000,000"),
    ([*TRAIN, "--as-good-as", "99999999999"], "must be a whole number from 0 to 1,000,000"),
    ([*TRAIN, "--tau", "1", "--certificate", "exact"], "^--certificate exact needs errors with a limit"),
    ([*TRAIN, "--tau", "1", "--image-size", "64"], "^--image-size is for folders of images and hf: sets"),
    ([*TRAIN, "--tau", "1", "--columns", "a"], "^--columns is for tables"),
    ([*TRAIN, "--tau", "1", "--skip-broken"], "^--skip-broken is for folders of images"),
    ([*TRAIN, "--tau", "1", "--source", "drawn"], r"^--source is for sets that can be drawn \(dsprites, shapes3d\)"),
    *[([*TRAIN, "--tau", "1", "--track", bad], "^--track must be one or more of") for bad in ("", "x", "tensorboard,")],
    *[
        (["train", "@good.csv", "--tau", "1", "--columns", bad], pattern)
        for bad, pattern in (
            ("age", "good.csv has no column 'age'"), ("", "column"), (",", "column"), ("height,", "column"),
            ("height,height", "height"), ("name", "column 'name' holds text"), ("Height", "no column 'Height'"),
        )
    ],
    *[
        (["train", "@pictures_sizes", "--tau", "1", "--image-size", bad], "--image-size must (be|have) ")
        for bad in ("0", "-1", "64x", "x64", "axb", "1e3", "", "0x64", "1000000", "64x64x64")
    ],
    ([*TRAIN, "--checkpoint-every", "٣"], "^--checkpoint-every must be a whole number; it is '٣'"),
    ([*FRONT, "--tau", "1"], "^a front has its own --taus; leave --tau out"),
    ([*FRONT, "--explained", "0.5"], "^a front has its own --taus; leave --explained out"),
    ([*FRONT, "--as-good-as", "3"], "^a front has its own --taus; leave --as-good-as out"),
    *[([*FRONT, "--recipe", one], f"^a front cannot be trained with --recipe {one}") for one in ("plain", "paper")],
    *[
        (["front", "@good.npy", f"--taus={bad}"], "^--taus must be numbers( above 0)?, such as 3,4,6; they are ")
        for bad in ("", ",", "1,", "a,b", "0,1", "-1,2", "nan,1", "inf,1", "1e400,1", "1;2", "1e-50,1", "1 2", "0,5x")
    ],
]  # fmt: skip


PEOPLE = ["train", "@people.csv", "--tau", "1"]
ROLES: list[Case] = [
    *[([*TRAIN, "--tau", "1", option, word], f"^{option} is for tables") for option, word in (
        ("--categories", "auto"), ("--group-column", "a"), ("--weight-column", "a"),
    )],
    (["train", "@squares.npy", "--tau", "1", "--group-column", "a"], "^--group-column is for tables"),
    (["train", "@pictures_sizes", "--tau", "1", "--missing", "mask"], "^--missing is for arrays and tables"),
    (["train", "@infinite.npy", "--tau", "1", "--missing", "mask"], "1 of 1200 values are infinite, first in example"),
    (["impute", "@run", "@good.npy", "-o", "x.npy"], "run was trained on data without missing values, so it cannot"),
    *[([*PEOPLE, *words], line) for words, line in (
        (["--columns", "height,colour"], "people.csv: column 'colour' holds text, .* with --categories auto$"),
        (["--columns", "height,born"], r"column 'born' holds dates or times \('2000-01-01' in row 1\); write it as nu"),
        (["--columns", "height,name", "--categories", "auto"], "column 'name' has 200 different texts in 200 rows, so"),
        (["--columns", "height,nil"], "column 'nil' lacks 200 of 200 values .* with --missing mask$"),
        (["--columns", "height,nil", "--missing", "mask"], "column 'nil' has no value in any of 200 rows; leave it ou"),
        (["--columns", "height", "--group-column", "subjct"], "^--group-column subjct: .*; did you mean 'subject'"),
        (["--columns", "height", "--weight-column", "wait"], "^--weight-column wait: .*people.csv has no such column"),
        (["--columns", "height", "--group-column", "weight", "--weight-column", "weight"],
         "^--group-column and --weight-column both name 'weight'; name two columns, or leave one out"),
        (["--columns", "height,weight", "--weight-column", "weight"], "column 'weight' says how rows count and cannot"),
        (["--columns", "height,subject", "--group-column", "subject"], "column 'subject' says how rows count and cann"),
        (["--columns", "height", "--group-column", "trio"], "column 'trio' must name 5 groups or more, .*; it names 3"),
        (["--columns", "height", "--group-column", "hole"], "'hole' must name a group for every row; row 8 has none"),
        (["--columns", "height", "--weight-column", "minus"], "'minus' must be finite numbers .* it is -1 in row 8"),
        (["--columns", "height", "--weight-column", "none"], "column 'none' must be above zero for 5 rows or more; 0"),
        (["--columns", "height", "--weight-column", "hole"], "'hole' must be finite numbers .* it is nan in row 8"),
        (["--columns", "height", "--weight-column", "colour"], "'colour' must be numbers, .*; it is 'red' in row 1"),
        (["--columns", "height,colour", "--categories", "auto", "--error", "absolute"], "has categories, whose cross-"),
        (["--columns", "height,colour", "--categories", "auto", "--scaling", "none"], "has categories, and numbers co"),
    )],
]  # fmt: skip


def outputs() -> list[Case]:
    """Files and folders that cannot be written."""
    array_commands = (["encode", "@run"], ["sample", "@run"], ["decode", "@run", "@codes.npy"], ["reconstruct", "@run"])
    files = {
        "z": "^z: the output is a .npy file; give it that suffix",
        "z.txt": "^z.txt: the output is a .npy file; give it that suffix",
        "/dev/full": "^/dev/full: the output is a .npy file",
        "nowhere/z.npy": "the folder nowhere does not exist; create it first",
        "@in the way/z.npy": "in the way is not a folder; choose another --out",
        "@folder.npy": "folder.npy is a folder; name a file",
        "/proc/z.npy": "^cannot write /proc/z.npy: .*; choose another --out",
        f"{LONG}.npy": "File name too long",
    }
    cases = [([*words, "-o", out], line) for words, (out, line) in product(array_commands, files.items())]
    pages = {name.replace(".npy", ".html"): line.replace(".npy", ".html") for name, line in files.items()}
    pages = {name: line.replace("cannot write /", "cannot write the report /") for name, line in pages.items()}
    del pages["@folder.html"]
    cases += [
        (["report", *runs, "-o", out], line) for out, line in pages.items() for runs in (["@run"], ["@run", "@front"])
    ]
    folders = {
        "@in the way": "exists and is not an empty folder; choose another --out",
        "@run": "exists and is not an empty folder; choose another --out",
        "@in the way/e": "^cannot write .*in the way/e: .*; choose another --out",
        "/proc/e": "^cannot write /proc/e: .*; choose another --out",
        LONG: "File name too long",
    }
    cases += [
        (["export", "@run", "--to", to, "-o", out], line)
        for to in ("torch", "safetensors")
        for out, line in folders.items()
    ]
    runs = {
        "@in the way": "^cannot create the folder .*in the way: File exists; choose another --out",
        "@in the way/r": "^cannot create the folder .*in the way/r: Not a directory; choose another --out",
        "@run": "exists and is not empty, and nothing is overwritten; choose another --out, or continue that run with",
        "@nothing.npz": "^cannot create the folder",
        "@circle": "^cannot create the folder",
        "@dangling": "^cannot create the folder",
        "/proc/r": "^cannot create the folder /proc/r: .*; choose another --out",
        LONG: "^cannot create the folder a+: File name too long; choose another --out",
    }
    return cases + [
        ([*words, "--steps", "2", "--out", out], line)
        for words in ([*TRAIN, "--tau", "1"], FRONT)
        for out, line in runs.items()
    ]


OTHERS: list[Case] = [
    *[(["sample", "@run", f"--{name}={bad}", "-o", "x.npy"], f"^--{name} must be {rule}") for name, bad, rule in (
        ("count", "0", "at least 1"), ("count", "-1", "at least 1"), ("count", "x", "a whole number"),
        ("count", "2.5", "a whole number"), ("count", "", "a whole number"), ("count", "nan", "a whole number"),
        ("components", "0", "a whole number from 1 on"), ("components", "-2", "a whole number from 1 on"),
        ("components", "x", "a whole number"),
        ("seed", "-1", "a whole number between 0 and 2"), ("seed", NINES, "a whole number between 0 and 2"),
        ("seed", "1.5", "a whole number"),
    )],
    *[
        (["sample", "@run", "--count", bad, "-o", "x.npy"], f"^--count {bad} needs .* GB free; use a smaller --count")
        for bad in ("999999999999", NINES)
    ],
    (["sample", "@run", "--sampler", "mixture", "--components", "9999", "-o", "x.npy"], "use fewer --components"),
    (["sample", "@run", "--sampler", "x", "-o", "x.npy"], '^Invalid value "x" for --sampler. Choose from: "prior"'),
    *[
        (["sample", "@run/model.safetensors", "--sampler", one, "-o", "x.npy"], "pass the run's folder instead")
        for one in ("mixture", "gaussian")
    ],
    *[(["evaluate", "@run", f"--{name}={bad}"], f"^--{name} must be {rule}") for name, bad, rule in (
        ("samples", "0", "a whole number from 2"), ("samples", "1", "a whole number from 2"),
        ("samples", "-1", "a whole number from 2"),
        ("samples", "x", "a whole number"), ("samples", "1e3", "a whole number"),
        ("samples", NINES, "a whole number from 2"),
        ("components", "0", "a whole number from 1 on"), ("components", "", "a whole number"),
        ("seed", "-1", "a whole number between 0"),
        ("seed", NINES, "a whole number between 0"), ("seed", "x", "a whole number"),
    )],
    (["evaluate", "@run", "--components", "99999"], "use fewer --components"),
    *[(["evaluate", "@run", "--against", bad], line) for bad, line in (
        ("@nothing", "is not a run folder"), ("@missing", "is not a run folder: it does not exist; check the path"),
        ("@good.npy", "damaged, or not a model of narrows"), ("", "--against is empty"),
        ("@front", "is a front; choose one of its runs"), ("@run_no_model", "has no model yet; continue it with"),
    )],
    *[(["explore", "@run", f"--port={bad}"], f"^--port must be {rule}") for bad, rule in (
        ("-1", "0 "), ("65536", "0 "), (NINES, "0 "), ("x", "a whole number"), ("1.5", "a whole number"),
        ("", "a whole number"),
    )],
    *[(["watch", "@run", f"--{name}={bad}"], f"^--{name} must be a number") for name, bad in product(
        ("every", "silence"), ("0", "-1", "nan", "inf", "1e9", "x", "", "0,5")
    )],
    *[(["resume", "@run", f"--steps={bad}"], f"^--steps {rule}") for bad, rule in (
        ("0", "must be at least 1"), ("-1", "must be at least 1"), ("x", "must be a whole number"),
        ("", "must be a whole number"), ("5", "5 is less than the 12 batches already trained"),
        (NINES, "must be at most "),
    )],
    (["resume", "@front", "--steps", "99"], "^--steps is for single runs; a front ends by itself"),
    (["resume", "@front/tau-0.5"], "is one tau of a front; continue with `narrows resume .*front`"),
    (["report", "@run", "@nothing"], "nothing is not a run folder"),
    (["report", "@nothing", "@run"], "nothing is not a run folder"),
    (["report", "@front", "@missing"], "missing is not a run folder: it does not exist; check the path"),
    (["report", "@run", "@run_half_config"], "config.json is damaged"),
    (["export", "@run", "--to", "x", "-o", "e"], '^Invalid value "x" for --to. Choose from: "onnx"'),
    (["export", "@run", "--to", "", "-o", "e"], '^Invalid value "" for --to. Choose from: "onnx"'),
    *[(["data", name, bad], f"^no such set: '{bad}'") for name in ("get", "path") for bad in ("nope", "MNIST", "")],
    (["data", "get", "mnist", "--source", "drawn"], "^mnist cannot be drawn .*; leave out --source drawn"),
    (["data", "get", "dsprites", "--source", "x"], '^Invalid value "x" for --source'),
    *[(["reproduce", bad], '^Invalid value ".*" for EXPERIMENT. Choose from: "training"') for bad in ("x", "", "T")],
    *[(["reproduce", "training", f"--{name}={bad}"], f"^--{name} must be {rule}") for name, bad, rule in (
        ("budget", "0", "above 0 and at most 1"), ("budget", "2", "above 0"), ("budget", "nan", "above 0"),
        ("budget", "-1", "above 0"), ("budget", "inf", "above 0"), ("budget", "x", "a number"), ("budget", "", "a num"),
        ("seeds", "0", "at least 1"), ("seeds", "x", "a whole number"), ("seeds", NINES, "at most 1,000"),
        ("width", "0", "at least 1"), ("width", "2.5", "a whole number"), ("jobs", "0", "at least 1"),
        ("jobs", "x", "a whole number"), ("recipe", "plain", "paper, fast or paper,fast"),
        ("recipe", "", "paper, fast"), ("recipe", "fast,", "paper, fast"),
    )],
    *[(["reproduce", "training", *words], line) for words, line in (
        (["--address", "localhost:1"], "^--address is for --engine ray; add it, or leave it out"),
        (["--engine", "slurm"], '^Invalid value "slurm" for --engine. Choose from: "local"'),
    )],
    (["reproduce", "training", "--one-run"], "^--one-run is for `narrows reproduce front`, not for training"),
    (["reproduce", "training", "--device", "x"], '^Invalid value "x" for --device'),
    *[(["reproduce", name, "--only", bad], f"^--only: '{bad}' is not a part of this experiment; its parts are ")
      for name, bad in (("front", "x"), ("table", "mnist-7"), ("table", ""), ("training", "x"), ("front", "99"))],
    *[(["reproduce", name, "--out", out, *more], line) for name, out, more, line in (
        ("training", "@in the way", [], "^cannot create the folder .*; choose another --out"),
        ("training", "@run", [], "is not empty and holds no experiment; choose another --out"),
        ("training", "@experiment", [], "holds the experiment front, not training; choose another --out"),
        ("training", "@experiment_damaged", [], "experiment.json is damaged"),
        ("front", "@experiment", [], "already holds this experiment; add --resume, or choose another --out"),
        ("front", "@experiment", ["--resume"], "was started with --budget 0.5, not 1; choose another --out"),
    )],
]  # fmt: skip


SWEEPS: list[Case] = [
    (["sweep"], "^`narrows sweep` needs FILE"),
    (["sweep", ""], "^FILE is empty; name a path"),
    *[(["sweep", f"@sweep_{name}.toml"], line) for name, line in (
        ("unknown", r"sweep_unknown.toml has an unknown setting 'sead'; did you mean 'seed'\?"),
        ("empty", "sweep_empty.toml: --seed is an empty list; give it values, or leave it out"),
        ("nested", r"sweep_nested.toml: --seed must be a value or a list of values; it has \[1, 2\]"),
        ("value", "sweep_value.toml: --seed must be between 0 and 2.63; it is -1"),
        ("pair", "sweep_pair.toml: give only one of --tau, --explained"),
        ("twice", "sweep_twice.toml: two runs are the same: seed = 0; leave one out"),
        ("zip", "sweep_zip.toml: lists that are combined by zip must be equally long; they have tau 2, seed 3"),
        ("combine", "sweep_combine.toml: sweep.combine must be product or zip; it is 'sum'"),
        ("entry", r"sweep_entry.toml: \[sweep\] has an unknown entry 'cpu'; did you mean 'cpus'\?"),
        ("place", r"sweep_place.toml: seed is a setting of the runs; put it above the table \[sweep\]"),
        ("top", r"sweep_top.toml: cpus is not a setting of the runs; put it into the table \[sweep\]"),
        ("table", "sweep_table.toml: sweep must be a table with combine, "),
        ("many", "sweep_many.toml: a sweep has at most 10,000 runs; these are 1,000,000"),
        ("gpus", "^--gpus is for --engine ray, which gives each run its own"),
        ("taus", "sweep_taus.toml: a front has its own --taus; leave --tau out"),
        ("taus_twice", "sweep_taus_twice.toml: --taus has 1 more than once; give each tau once"),
        ("nothing", "sweep_nothing.toml: there are no settings; give some, such as data = "),
    )],
    *[(["sweep", "@sweep.toml", *words], line) for words, line in (
        (["--jobs", "0"], "^--jobs must be a whole number from 1 on"),
        (["--jobs", "x"], "^--jobs must be a whole number"),
        (["--address", "localhost:1"], "^--address is for --engine ray; add it, or leave it out"),
        (["--engine", "slurm"], '^Invalid value "slurm" for --engine. Choose from: "local"'),
        (["--resume=2"], "^--resume is on when it is typed"),
        (["--out", "@run"], "is not empty and holds no sweep; choose another --out"),
        (["--out", "@in the way"], "^cannot create the folder .*in the way: File exists; choose another --out"),
        (["--out", "@in the way/s"], "^cannot create the folder .*in the way/s: Not a directory; choose another --out"),
        (["--out", "/proc/s"], "^cannot create the folder /proc/s: .*; choose another --out"),
        (["--out", ""], "^--out is empty; name a path"),
        (["--tau", "1"], "unexpected on the command line|[Uu]nknown option"),
    )],
]  # fmt: skip

GROUPS: dict[str, list[Case]] = {
    **TYPED,
    "unknown": UNKNOWN,
    "combined": COMBINED,
    "outputs": outputs(),
    "other commands": OTHERS,
    "tables": ROLES,
    "data": [(["train", path, "--tau", "1"], named(path, line)) for path, line in DATA.items() if path != "@few.npy"],
    "few examples": [(["train", "@few.npy", "--tau", "1"], DATA["@few.npy"])],
    "data of a front": [([FRONT[0], path, *FRONT[2:]], line) for path, line in list(DATA.items())[::4]],
    "encode": [(["encode", "@run", path, "-o", "z.npy"], line) for path, line in ENCODED.items()],
    "reconstruct": [(["reconstruct", "@run", path, "-o", "z.npy"], line) for path, line in ENCODED.items()],
    "decode": [(["decode", "@run", path, "-o", "z.npy"], line) for path, line in CODES.items()],
    "config": [([*TRAIN, "--config", path], line) for path, line in CONFIGS.items()],
    "config of a front": [([*FRONT, "--config", path], line) for path, line in list(CONFIGS.items())[::3]],
    "sweep": [(["sweep", path], line) for path, line in CONFIGS.items()],
    "sweeps": SWEEPS,
    **{f"run {run[:20]}": run_cases(run) for run in RUNS},
}
"""All cases, in groups that each take a second or two."""
