"""Mutations of valid files: each takes a `random.Random` and returns other bytes, the same for the same seed.

bytes        bits flipped, bytes set, cut off, inserted, repeated, spliced, and numbers where a format keeps its sizes
JSON         values of another type, missing and unknown keys, nesting, numbers that no computer word can hold
TOML, CSV    the same for lines and cells
containers   the inside of a zip, gzip, PNG or safetensors file, with checksums and lengths that are right again, so
             that a mutation is met by the reader behind them
"""

import copy
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutator = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""(random numbers, a valid file, other valid files of its kind) -> a mutated file."""

SIZES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
"""Numbers where programs go wrong."""
DEEP, LONG = "@deep@", "@long@"
"""Texts that stand for a list in a hundred thousand lists, and for a number of five thousand digits."""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 10**9, 10**400, 0.0, -0.0, 0.5, -1.5, 1e-320, 1e308, 2.5e0,
    float("nan"), float("inf"), float("-inf"), "", " ", "four", "1", "nan", "-1", "a\nb", "\x1b[31mred\x1b[0m", "\0",
    "`#", "\ud800", "é", "x" * 100_000, "../../up", "/dev/zero", "/proc/self/mem", "<script>alert(1)</script>",
    [], {}, [0], [[]], [None] * 3, ["a"] * 3,
    {"": 0}, {"a": {"b": []}}, list(range(1000)), DEEP, LONG,
)  # fmt: skip
CELLS = (
    "", " ", "0", "-1", "1.5", "nan", "inf", "-inf", "1e999", "9" * 400, "99999999999", "x", '"', '"a', "a,b", "1;2",
    "\x1b[31m", "\0", "é", "1_0", "0x10", "١", "3 3", "1 -1", "1 2", "-0", "1e-320", "true", "x" * 70_000,
)  # fmt: skip
TOML = (
    "0", "-1", "1.5", "nan", "inf", '""', '"four"', "true", "[]", "{}", "[1, 2]", "{a = 1}", "1979-05-27", "07:32:00",
    "9" * 400, "[" * 5_000 + "]" * 5_000, "'''\n'''", '"\\u001b[31m"', "0x10", "1e400", "{a = {b = {c = 1}}}",
)  # fmt: skip


def mutate_bytes(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change a file's bytes in one to four places."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = _one_change(rng, content, others)
    return content


def _one_change(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at = _place(rng, content)
    end = min(len(content), at + rng.choice((1, 2, 4, 8, 64, 1024)))
    kind = rng.randrange(9)
    if kind == 0 and at < len(content):
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))]) + content[at + 1 :]
    if kind == 2:
        return content[:at]
    if kind == 3:
        return content[:at] + rng.randbytes(rng.choice((1, 4, 100, 5000))) + content[at:]
    if kind == 4:
        return content[:end] + content[at:end] * rng.choice((1, 2, 50)) + content[end:]
    if kind == 5:
        other = rng.choice([content, *others])
        return content[:at] + other[_place(rng, other) :]
    if kind == 6:
        return content[:at] + content[end:]
    if kind == 7:
        return content[:at] + bytes(end - at) + content[end:]
    form = rng.choice("<>") + rng.choice("HIQ")
    number = struct.pack(form, rng.choice(SIZES) & (1 << 8 * struct.calcsize(form)) - 1)
    return content[:at] + number + content[at + len(number) :]


def _place(rng: Random, content: bytes) -> int:
    """Return a position: anywhere, or near the start or the end, where formats keep their headers."""
    where = rng.randrange(len(content) + 1)
    return (where, where % 256, where % 32, max(0, len(content) - where % 256))[rng.randrange(4)]


def mutate_json(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change a JSON file: mostly its values, sometimes its bytes."""
    if rng.random() < 0.2:
        return mutate_bytes(rng, content, others)
    return json_text(mutate_value(rng, json.loads(content))).encode("utf-8", "surrogatepass")


def mutate_value(rng: Random, content: Any, values: Sequence[Any] = VALUES) -> Any:
    """Return a copy of nested dictionaries and lists, changed in one to three places."""
    content = {"": copy.deepcopy(content)}
    for _ in range(rng.choice((1, 1, 2, 3))):
        holders = [holder for holder in holders_in(content) if len(holder)]
        holder = rng.choice(holders)
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        kind = rng.randrange(6) if holder is not content else rng.randrange(3)
        if kind == 3:
            del holder[key]
        elif kind == 4 and isinstance(holder, dict):
            holder[rng.choice((f"{key}_", "__class__", "x" * 200, "\x1b[0m", ""))] = holder.pop(key)
        elif kind == 4:
            holder[:] = holder * rng.choice((0, 2, 30))
        elif kind == 5:
            other = rng.choice(holders)
            holder[key] = copy.deepcopy(rng.choice(list(other.values()) if isinstance(other, dict) else other))
        else:
            holder[key] = copy.deepcopy(rng.choice(values))
    return content.get("")


def holders_in(content: Any) -> list[Any]:
    """Return all dictionaries and lists in `content`, itself included."""
    found, waiting = [], [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            found.append(one)
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return found


def json_text(content: Any) -> str:
    """Return a value as JSON, with what `json.dumps` cannot write put in afterwards."""
    text = json.dumps(content, ensure_ascii=False)
    return text.replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000).replace(f'"{LONG}"', "9" * 5_000)


def mutate_toml(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change the values of a flat TOML file, or its bytes."""
    if rng.random() < 0.2:
        return mutate_bytes(rng, content, others)
    lines = content.decode().splitlines()
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        key = rng.choice((lines[at].partition(" = ")[0], "unknown", "a.b", '""', '"\\u001b"'))
        lines[at] = f"{key} = {rng.choice(TOML)}"
    return "\n".join(lines).encode()


def mutate_csv(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change cells and lines of a CSV file, or its bytes."""
    if rng.random() < 0.25:
        return mutate_bytes(rng, content, others)
    rows = [line.split(",") for line in content.decode().split("\n")]
    for _ in range(rng.choice((1, 1, 2, 3))):
        row = rng.choice(rows) if rows else []
        kind = rng.randrange(7)
        if kind < 3 and row:
            row[rng.randrange(len(row))] = rng.choice(CELLS)
        elif kind == 3:
            row.insert(rng.randrange(len(row) + 1), rng.choice(CELLS))
        elif kind == 4 and row:
            del row[rng.randrange(len(row))]
        elif kind == 5:
            rows.insert(rng.randrange(len(rows) + 1), list(rng.choice((row, [], [rng.choice(CELLS)], ["0"] * 5_000))))
        elif rows:
            del rows[rng.randrange(len(rows))]
    ending = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    return ending.join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


def mutate_safetensors(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change the description or the header of a safetensors file; its length is right again."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, content, others)
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    if rng.random() < 0.7:
        description = mutate_value(rng, json.loads(header["__metadata__"]["narrows"]))
        header["__metadata__"]["narrows"] = json_text(description)
    else:
        header = mutate_value(rng, header)
    text = json_text(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def mutate_zip(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change the bytes of a zip file, or of a member, which is stored with its new checksum."""
    if rng.random() < 0.4:
        return mutate_bytes(rng, content, others)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    members[name] = rng.choice((mutate_npy, mutate_bytes))(rng, members[name], ())
    if rng.random() < 0.1:
        members[rng.choice(("../x.npy", "/x.npy", "x" * 300, "\x1b[31m.npy", "a.npy"))] = members[name]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, inside in members.items():
            archive.writestr(member, inside)
    return made.getvalue()


def mutate_npy(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change the header of an .npy file, whose length is right again, or its bytes."""
    if not content.startswith(b"\x93NUMPY\x01\0") or rng.random() < 0.4:
        return mutate_bytes(rng, content, others)
    (length,) = struct.unpack("<H", content[8:10])
    shapes = (
        "()",
        "(0,)",
        "(-1, 4)",
        "(1000000000, 4)",
        f"({1 << 62}, 4)",
        "(40, 0)",
        "(1000000000, 1000000)",
        "(2,)" * 900,
    )
    shapes = (*shapes, "(40, 0)", "40")
    kinds = ("|O", "<f8", ">u2", "<c16", "<U9", "|V7", "<M8[s]", "|S3", "<f16", "[('a', '<f4')]", "x", "<i8")
    header = rng.choice((
        f"{{'descr': '{rng.choice(kinds)}', 'fortran_order': {rng.choice((True, False))}, 'shape': (40, 4), }}",
        f"{{'descr': '<f4', 'fortran_order': {rng.choice((True, False))}, 'shape': {rng.choice(shapes)}, }}",
        "{" * 3_000, "[" * 30_000, "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}", "{'shape': 1}",
    )).encode()[:65_000]  # fmt: skip
    return content[:8] + struct.pack("<H", len(header)) + header + content[10 + length :]


def mutate_gzip(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change what is inside a gzip file, or its bytes."""
    if rng.random() < 0.4:
        return mutate_bytes(rng, content, others)
    return gzip.compress(mutate_bytes(rng, gzip.decompress(content)), 1, mtime=0)


def mutate_image(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change the bytes of an image; in a PNG, often with checksums that are right again."""
    mutated = mutate_bytes(rng, content, others)
    if not content.startswith(b"\x89PNG") or rng.random() < 0.5:
        return mutated
    chunks, at = [], 8
    while at + 8 <= len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    place = rng.randrange(len(chunks))
    kind, data = chunks[place]
    chunks[place] = kind, mutate_bytes(rng, data)
    whole = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return content[:8] + b"".join(whole)
