"""Tables: exact values from every kind of column, and the text of every error."""

import datetime
import decimal
import gzip
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from narrows.data.readers import csv as csv_reader, parquet as parquet_reader, shared
from narrows.data.readers.parquet_pages import page_sizes
from narrows.data.readers.tables import load_table
from refusals import refused


@pytest.fixture
def save(tmp_path):
    def save(content, name="heights.csv"):
        path = tmp_path / name
        if name.endswith(".parquet"):
            pq.write_table(pa.table(content), path, row_group_size=3)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return save


KEEP = "; keep only columns of numbers, with columns='a'"
AS_CATEGORY = ", or train on it as a category, with categories='auto'"


def refusal(path, columns=None):
    return refused(load_table, path, columns).removeprefix(f"{path}")


def read(path, columns=None):
    data = load_table(path, columns)
    assert data.examples.shape == (len(data.columns),)
    assert data.examples.scale == 1.0
    return data.columns, data.examples.array


def check(path, names, rows, dtype=np.float64):
    columns, array = read(path)
    assert columns == tuple(names)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, np.array(rows, dtype))


def test_a_csv_file(save):
    path = save("a,b\n1,2.5\n-3,1e3\n")
    check(path, ["a", "b"], [[1, 2.5], [-3, 1000]])
    data = load_table(path)
    assert (data.name, data.values, data.test) == ("heights", "any", None)
    assert data.note == f"2 rows of 2 columns read from {path}"


def test_doubles_arrive_exactly(save):
    values = np.random.default_rng(0).standard_normal((500, 3)) * 10.0 ** np.arange(-3, 12, 7)
    path = save("a,b,c\n" + "".join(f"{a!r},{b!r},{c!r}\n" for a, b, c in values.tolist()))
    check(path, "abc", values)
    check(save({name: values[:, i] for i, name in enumerate("abc")}, "t.parquet"), "abc", values)


def test_columns_are_chosen_and_ordered(save):
    for path in (
        save("a,b,c,who\n1,2,3,x\n4,5,6,y\n"),
        save({"a": [1, 4], "b": [2, 5], "c": [3, 6], "who": ["x", "y"]}, "t.parquet"),
    ):
        columns, array = read(path, ["c", "a"])
        assert columns == ("c", "a")
        np.testing.assert_array_equal(array, [[3, 1], [6, 4]])
        assert refusal(path, ["c", "nope"]) == " has no column 'nope'; its columns: a, b, c, who"
        assert refusal(path, ["whom"]) == " has no column 'whom'; its columns: a, b, c, who; did you mean 'who'?"
        assert refusal(path, ["a", "b", "a"]) == ": column 'a' is chosen twice; name it once"
        assert refusal(path, []) == ": no columns are chosen; name one or more of a, b, c, who"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a;b\n1;2.5\n3;4\n", "t.csv"),
        ("a\tb\n1\t2.5\n3\t4\n", "t.csv"),
        ("a\tb\n1\t2.5\n3\t4\n", "t.tsv"),
        ("a,b\r\n1,2.5\r\n3,4\r\n", "t.csv"),
        ("a,b\r1,2.5\r3,4", "t.csv"),
        ("\ufeffa,b\n1,2.5\n3,4", "t.csv"),
        ("\n\n a , b \n\n 1 , 2.5 \n\n3,4\n\n", "t.csv"),
        ('"a","b"\n"1","2.5"\n3,4\n', "t.csv"),
    ],
)
def test_ways_to_write_the_same(save, text, name):
    check(save(text, name), "ab", [[1, 2.5], [3, 4]])


@pytest.mark.parametrize("name", ["heights.csv.gz", "heights.tsv.gz", "HEIGHTS.CSV.GZ"])
def test_gzipped(save, name):
    path = save(gzip.compress(b"a\tb\n1\t2\n") + gzip.compress(b"3\t4\n"), name)
    check(path, "ab", [[1, 2], [3, 4]])
    assert load_table(path).name.lower() == "heights"


def test_names_with_delimiters_and_line_ends(save):
    check(save('"a,x;y;z","b\nc"\n1,2\n'), ["a,x;y;z", "b\nc"], [[1, 2]])


def test_one_column(save):
    check(save("a\n1\n2\n"), "a", [[1], [2]])


def test_line_ends_within_fields_that_are_not_taken(save, monkeypatch):
    monkeypatch.setattr(csv_reader, "_BLOCK", 100)
    path = save("text,a\n" + "".join(f'"many\nlines, ""{i}""",{i}\n' for i in range(500)))
    np.testing.assert_array_equal(read(path, ["a"])[1][:, 0], np.arange(500))


def test_without_a_header(save):
    path = save("1,2.5\n3,4\n")
    check(path, ["c1", "c2"], [[1, 2.5], [3, 4]])
    assert load_table(path).note == (
        f"2 rows of 2 columns read from {path}; its first line holds only numbers and is taken as a row, not as names"
    )
    assert "column 'c2' lacks 1 of 2 values (empty, NaN or infinite), first in row 1" in refusal(save("1,\n3,4\n"))


def test_headers_of_pandas(save):
    check(save("0,1,2\n5,6,7\n"), "012", [[5, 6, 7]])
    path = save(",0,1,2\n0,5,6,7\n")
    check(path, ["c1", "0", "1", "2"], [[0, 5, 6, 7]])
    assert load_table(path).note.endswith("; column 1 has no name and is called c1")
    check(save({"a": [1.5], "__index_level_0__": [7]}, "t.parquet"), "a", [[1.5]])
    assert read(save({"a": [1.5], "__index_level_0__": [7]}, "t.parquet"), ["__index_level_0__"])[1] == 7


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ({"a": pa.array([1, 0], pa.float16()), "b": pa.array([0.1, -2], pa.float32())}, np.float32),
        ({"a": pa.array([-5, 6], pa.int16()), "b": pa.array([65535, 1], pa.uint16())}, np.float32),
        ({"a": pa.array([True, False]), "b": pa.array([-5, 6], pa.int8())}, np.float32),
        ({"a": pa.array([True, False]), "b": pa.array([2**31 - 1, 6], pa.int32())}, np.float64),
        ({"a": pa.array([0.1, 2], pa.float32()), "b": pa.array([0.1, 6], pa.float64())}, np.float64),
        ({"a": pa.array([2**53 - 1, 2**49 + 1]), "b": pa.array([1, 2], pa.uint64())}, np.float64),
        ({"a": pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3")]), "b": pa.array([1, 2])}, np.float64),
        ({"a": pa.array([1.5, 2.5]).dictionary_encode(), "b": pa.array([7, 8]).dictionary_encode()}, np.float64),
    ],
)
def test_types_of_parquet(save, columns, dtype):
    rows = np.array([[float(value) for value in column.to_pylist()] for column in columns.values()]).T
    check(save(columns, "t.parquet"), "ab", rows, dtype)


def test_types_of_csv(save):
    check(save("a,b\ntrue,False\nfalse,True\n"), "ab", [[1, 0], [0, 1]], np.float32)
    check(save("a,b\ntrue,7\nfalse,9\n"), "ab", [[1, 7], [0, 9]], np.float64)


def test_integers_beyond_2_to_53_are_rounded(save):
    check(save(f"a\n{2**53 + 1}\n"), "a", [[2.0**53]])
    check(save({"a": [2**53 + 1]}, "t.parquet"), "a", [[2.0**53]])


def test_later_fields_may_be_floats(save, monkeypatch):
    monkeypatch.setattr(csv_reader, "_BLOCK", 100)
    path = save("a,b\n" + "1,true\n" * 300 + "0.5,false\n")
    array = read(path)[1]
    assert array.shape == (301, 2)
    np.testing.assert_array_equal(array[-1], [0.5, 0])


def test_text_is_refused(save):
    path = save("a,who,b,when\n1,7,2,2020-01-01\n3,ann,4,2020-01-02\n")
    assert refusal(path) == (
        ": column 'who' holds text, not numbers ('ann' in row 2); keep only columns of numbers, with columns='a,b'"
        + AS_CATEGORY
    )
    assert refusal(path, ["a", "when"]) == (
        ": column 'when' holds dates or times ('2020-01-01' in row 1); write it as numbers, such as days since the "
        "first one, or hour, weekday and month in columns of their own"
    )
    many = ",".join(f"n{i}" for i in range(10))
    assert refusal(save(f"who,{many}\nann,{','.join('1' * 10)}\n")).endswith(
        "keep only columns of numbers, with columns='n0,n1,n2,n3,n4,n5,n6,n7' (the first 8 of 10 columns of numbers)"
        + AS_CATEGORY
    )
    assert refusal(save("a,b\nx,y\n")).endswith(
        "no other column holds numbers either; encode them as numbers" + AS_CATEGORY
    )
    assert "('" + "x" * 37 + "...' in row 1)" in refusal(save("a,b\n" + "x" * 1000 + ",1\n"))
    assert "('\\n\\x00' in row 1)" in refusal(save('a,b\n"\n\0",1\n'))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([None, "ann"], "holds text, not numbers ('ann' in row 2)" + KEEP + AS_CATEGORY),
        ([datetime.date(2020, 1, 2)] * 2, "holds dates or times ('2020-01-02' in row 1); write it as numbers, such as"),
        ([[1.0], [2.0]], "double>, not numbers ('[1.0]' in row 1)" + KEEP),
        ([{"x": 1}, {"x": 2}], "holds struct<x: int64>, not numbers (\"{'x': 1}\" in row 1)" + KEEP),
        (pa.array([None, None], pa.string()), "holds text, not numbers ('null' in row 1)" + KEEP + AS_CATEGORY),
    ],
)
def test_other_types_of_parquet_are_refused(save, values, said):
    text = refusal(save({"odd": values, "a": [1, 2]}, "t.parquet"))
    assert text.startswith(": column 'odd' holds ")
    assert said in text


def test_text_further_down_is_found_with_its_row(save, monkeypatch):
    monkeypatch.setattr(csv_reader, "_BLOCK", 100)
    path = save("\n\nb,a\n" + "1,2\n\n" * 300 + "1,oops\n")
    assert refusal(path, ["a"]) == (
        ": column 'a' holds text, not numbers ('oops' in row 301); keep only columns of numbers, with columns='b'"
        + AS_CATEGORY
    )
    path = save("1,2\n" * 300 + "1,oops\n")
    assert "column 'c2' holds text, not numbers ('oops' in row 301)" in refusal(path)


@pytest.mark.parametrize("absent", ["", "NA", "nan", "NULL", "inf", "-inf", "1e999"])
def test_missing_values(save, absent):
    rows = "a,b\n" + "1,2\n" * 4 + f"1,{absent}\n" * 2 + "3,4\n" + f"{absent},7\n"
    said = (
        ": column '{}' lacks {} of 8 values (empty, NaN or infinite), first in row {}{}; "
        "fill them in, or leave out those rows or columns, or train on what was observed with missing='mask'"
    )
    assert refusal(save(rows)) == said.format("a", 1, 8, " (2 columns lack some)")
    assert refusal(save(rows), ["b"]) == said.format("b", 2, 5, "")


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64(), pa.bool_(), pa.decimal128(5, 2), pa.null()])
def test_nulls(save, kind):
    one = True if kind == pa.bool_() else 1
    values = pa.array([None] * 5 if kind == pa.null() else [one, one, one, None, None], kind)
    text = refusal(save({"x": [1] * 5, "a": values}, "t.parquet"))
    count, row = (5, 1) if kind == pa.null() else (2, 4)
    assert text.startswith(f": column 'a' lacks {count} of 5 values (empty, NaN or infinite), first in row {row}; fill")


def test_nans_of_parquet(save):
    assert "'a' lacks 2 of 5 values" in refusal(save({"a": [1.0, np.nan, 2.0, 3.0, np.inf]}, "t.parquet"))


def test_an_empty_column(save):
    assert "column 'b' lacks 2 of 2 values" in refusal(save("a,b\n1,\n2,\n"))


def test_huge_values(save):
    said = ": column 'b' runs from -4 to 2e+150, more than can be squared and summed (1e+100); rescale it"
    assert refusal(save("a,b\n1,2e150\n1,-4\n")) == said
    assert refusal(save({"a": [1, 1], "b": [2e150, -4]}, "t.parquet")) == said


def test_names_that_appear_twice(save):
    path = save("a,b,a\n1,2,3\n")
    assert refusal(path) == " has 2 columns called 'a'; give each column a different name"
    np.testing.assert_array_equal(read(path, ["b"])[1], [[2]])
    path = path.with_suffix(".parquet")
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"]), path)
    assert refusal(path) == " has 2 columns called 'a'; give each column a different name"
    np.testing.assert_array_equal(read(path, ["b"])[1], [[2]])


def test_nothing_to_read(save, tmp_path):
    assert refusal(save("")) == " is empty; check how it was written"
    assert refusal(save("\n\n")) == " is empty; check how it was written"
    for path in (save("a,b\n"), save("a,b"), save({"a": pa.array([], pa.int8())}, "t.parquet")):
        assert refusal(path) == " holds no rows of values; check how it was written"
    assert refusal(save({}, "t.parquet")) == " has no columns; check how it was written"
    for name in ("none.csv", "none.parquet"):
        assert refusal(tmp_path / name).startswith(" cannot be read (")
        assert refusal(tmp_path / name).endswith("; check the path")


def test_ragged_rows(save):
    assert refusal(save("\na,b,c\n1,2,3\n\n4,5\n")) == (
        ": row 2 has 2 fields, not 3 as the first line ('4,5'); fix it, and quote fields with ',' in them"
    )
    assert "row 2001 has 4 fields, not 3 as" in refusal(save("a;b;c\n" + "1;2;3\n" * 2000 + "1;2;3;4\n"))


def test_a_quote_left_open(save):
    text = refusal(save('a,b\n1,"2\n' + "1,2\n" * 1_000_000))
    assert text == (
        ": the file is damaged or not a CSV file (a row is longer than 1 MB; is a quote left open?); "
        "fetch or write it again"
    )


def test_other_encodings(save):
    said = " is not UTF-8 text ({} in its first line); save it as CSV in UTF-8"
    assert refusal(save("größe,b\n1,2\n".encode("latin-1"))) == said.format("byte 0xf6")
    assert refusal(save("a,b\n1,2\n".encode("utf-16"))) == said.format("byte 0xff")
    assert refusal(save("a,b\n1,2\n".encode("utf-16-be"))) == said.format("zero bytes")
    path = save("a,wo\n1,Köln\n".encode("latin-1"))
    np.testing.assert_array_equal(read(path, ["a"])[1], [[1]])
    assert "column 'wo' holds text, not numbers ('K\ufffdln' in row 1)" in refusal(path)


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, -1])
def test_truncated_parquet(save, keep):
    path = save({"a": np.arange(1000.0)}, "t.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    assert refusal(path).startswith(": the file is damaged or not a Parquet file (")


def test_flipped_bytes_of_parquet(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    pq.write_table(pa.table({"a": np.arange(5000.0)}), path := tmp_path / "t.parquet")
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(300)
    path.write_bytes(content)
    assert refusal(path).startswith(": the file is damaged or not a Parquet file (")
    assert os.listdir(cache) == []


@pytest.mark.parametrize("cut", [5, 200])
@pytest.mark.parametrize("share", [0.25, 0.0])
def test_truncated_gzip(save, monkeypatch, cut, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    values = np.random.default_rng(0).random(100_000).tolist()
    whole = gzip.compress(("a\n" + "\n".join(map(str, values))).encode(), 1)
    assert refusal(save(whole[:-cut], "t.csv.gz")).startswith(": the file is damaged or not a CSV file (")
    assert "not a CSV file (Not a gzipped file" in refusal(save("a,b\n1,2\n", "t.csv.gz"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_too_large_for_memory_is_cached(save, cache, monkeypatch, kind):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    monkeypatch.setattr(csv_reader, "_BLOCK", 100)
    monkeypatch.setattr(csv_reader, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(parquet_reader, "CHUNK_BYTES", 1000)
    values = np.arange(600.0).reshape(300, 2)
    text = "a,b\n" + "".join(f"{a},{b}\n" for a, b in values)
    path = save(text if kind == "csv" else {"a": values[:, 0], "b": values[:, 1]}, f"t.{kind}")
    seen = []
    for again in (False, True):
        data = load_table(path, progress=lambda *now: seen.append(now))
        assert isinstance(data.examples.array, np.memmap)
        np.testing.assert_array_equal(data.examples.array, values)
        (cached,) = cache.iterdir()
        assert cached.name.startswith("table-")
        assert data.note == f"300 rows of 2 columns read from {path}, cached in {cached}"
        assert bool(seen) is not again
        if seen:
            total = len(text) if kind == "csv" else 300
            assert seen[-1] == (f"reading t.{kind}", total, total)
        seen.clear()
    np.testing.assert_array_equal(load_table(path, ["b", "a"]).examples.array, values[:, ::-1])
    np.testing.assert_array_equal(load_table(path, ["b"]).examples.array, values[:, 1:])
    assert len(os.listdir(cache)) == 3


def test_a_file_left_half_read_does_not_trouble_the_end_of_the_process(save):
    path = save("a,b\n1,x\n" + "1,2\n" * 2_000_000)
    script = (
        "import sys, pathlib; from narrows.data.readers.tables import load_table; load_table(pathlib.Path(sys.argv[1]))"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=300)
    assert "column 'b' holds text, not numbers ('x' in row 1)" in ended.stderr
    assert ended.returncode == 1, "a thread that still reads a Python file would abort the process"


@pytest.mark.parametrize("share", [0.25, 0.0])
def test_refused_tables_leave_nothing_in_the_cache(save, cache, monkeypatch, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    refusal(save("a,b\n1,2\n1,\n"))
    refusal(save({"a": [1, None]}, "t.parquet"))
    assert not cache.exists() or os.listdir(cache) == []


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_without_pyarrow(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refusal(tmp_path / name) == "reading CSV and Parquet files needs pyarrow: pip install 'narrows[tables]'"


def test_a_table_that_would_become_far_larger_than_the_file(save, cache, monkeypatch):
    """A Parquet file states its rows and is refused before they are read, a gzipped CSV file while they are."""
    monkeypatch.setattr(shared, "SMALL_ARRAY", 10**6)
    constant = pa.table({"a": np.zeros(10**6)})
    pq.write_table(constant, path := save({"a": [1.0]}, "bomb.parquet"))
    said = (
        "in the file would become an array of 8 MB, more than 500 times as much, so it is damaged or was never filled;"
    )
    assert said in refusal(path)
    path = save(gzip.compress(b"a,b,c\n" + b"1,2,3\n" * 10**6), "bomb.csv.gz")
    assert "bytes in the file would become an array of " in refusal(path)
    assert not cache.exists()


def test_what_gzip_states_is_looked_at_after_the_first_block(save, monkeypatch):
    monkeypatch.setattr(shared, "SMALL_ARRAY", 10**7)
    calls = []
    path = save(gzip.compress(b"a,b,c\n" + b"1,2,3\n" * 10**6), "t.csv.gz")  # 24 MB
    progress = lambda what, done, total: calls.append(what)  # noqa: E731
    assert "more than 500 times as much" in refused(load_table, path, None, progress)
    assert calls == []
    path = save(gzip.compress(b"a\n" + b"0\n" * 10**6), "t.csv.gz")  # 8 MB
    assert len(load_table(path, progress=progress).examples) == 10**6
    assert len(calls) > 1


def varint(number):
    """Return a whole number from 0 on as Thrift writes it."""
    number, content = 2 * number, b""
    while number > 127:
        number, content = number >> 7, content + bytes([number & 127 | 128])
    return content + bytes([number])


def chunks_of(path):
    metadata = pq.ParquetFile(path).metadata
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}])
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_the_pages_of_a_column_add_up_to_it(tmp_path, compression, options):
    """The footer counts the pages with their headers: what is left of each sum is the same."""
    x = np.random.default_rng(0).standard_normal((5_000, 3)).round(1)
    table = pa.table({name: x[:, place] for place, name in enumerate(("a", "b.c", ""))})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=2_500, data_page_size=1_000, compression=compression, **options)
    total = 0
    for chunk in chunks_of(path):
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        pages = list(page_sizes(path, start, start + chunk.total_compressed_size))
        assert len(pages) > 1
        headers = chunk.total_uncompressed_size - sum(pages)
        assert 10 * len(pages) < headers < 100 * len(pages)
        total += chunk.total_uncompressed_size
    assert parquet_reader.Parquet(path).unpacked([0, 1, 2]) == total


def test_what_a_page_declares_is_compared_with_the_file_and_with_memory(save, monkeypatch):
    path = save({"a": [1.0]}, "t.parquet")
    pq.write_table(pa.table({"a": np.zeros(15_000)}), path, compression="gzip", use_dictionary=False)
    check(path, ["a"], np.zeros((15_000, 1)))
    with monkeypatch.context() as patch:
        patch.setattr(parquet_reader, "free_memory", lambda: 10**5)
        assert refusal(path) == (
            " declares a page of 0.1 MB, and 0.1 MB of memory are free; write it again with smaller pages"
        )
    content = path.read_bytes()
    (page,) = page_sizes(path, 4, 5)
    assert content.count(varint(page)) == 1
    path.write_bytes(content.replace(varint(page), varint(10**6)))
    monkeypatch.setattr(shared, "SMALL_ARRAY", 5 * 10**5)
    assert "bytes in the file would become an array of 1 MB, more than 500 times as much" in refusal(path)


def test_a_page_header_without_end(tmp_path):
    lists = b"\x19\xf7\xff\xff\xff\xff\xff\x7f"  # a list of 2^48 doubles
    for content in b"", b"\x15", b"\x15" * 10, lists, b"\x18\xff\xff\x7f", b"\x1c" * 10**5, b"\x80" * 10**5:
        (tmp_path / "t.parquet").write_bytes(content)
        with pytest.raises((ValueError, RecursionError)):
            list(page_sizes(tmp_path / "t.parquet", 0, 9))
    for content in b"\x00", b"\x15\x00\x15\x02\x15\x01\x00", b"\x15\x00\x15\x01\x15\x02\x00", b"\x1e":
        (tmp_path / "t.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"a page header (states no sizes|has a field of unknown type)"):
            list(page_sizes(tmp_path / "t.parquet", 0, 9))


def test_a_file_of_empty_lines(save):
    path = save(gzip.compress(b"\n" * 10**6), "bomb.csv.gz")
    assert refusal(path) == (
        ": the file is damaged or not a CSV file (its first 10,000 lines are empty); fetch or write it again"
    )


@pytest.mark.parametrize("declared", [5, 9])
@pytest.mark.parametrize("share", [0.25, 0.0])
def test_a_file_with_other_rows_than_it_declares(save, monkeypatch, declared, share):
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", share)
    path, real = save({"a": [1.0] * 7}, "lie.parquet"), parquet_reader.Parquet

    def lying(path):
        table = real(path)
        table.count = declared
        return table

    monkeypatch.setattr(parquet_reader, "Parquet", lying)
    assert refusal(path) == f" is damaged: it declares {declared} rows and has others; write it again"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("semicolons", "a;b\n0,5;1\n1,5;2\n", "column 'a' writes numbers with a comma ('0,5' in row 1)"),
        ("second", "a;b\n1;-0,25e3\n2;1,5\n", "column 'b' writes numbers with a comma ('-0,25e3' in row 1)"),
        ("nameless", "0,5;0,25\n1,5;1,25\n", "column '0,5' writes numbers with a comma ('1,5' in row 1)"),
        ("spaces", "a;b\n 0,50;1\n 1,5;2\n", "column 'a' writes numbers with a comma (' 0,50' in row 1)"),
    ],
)
def test_decimal_commas(save, name, content, said, monkeypatch, tmp_path):
    """The advice is one line of Python, and it works."""
    pandas = pytest.importorskip("pandas")
    path = save(content, f"{name}.csv")
    text = refusal(path)
    assert text.startswith(f": {said}; write decimals with a point, for example with `pandas.")
    monkeypatch.chdir(tmp_path)
    exec(text.split("`")[1], {"pandas": pandas})
    assert read(tmp_path / "points.csv")[1].dtype == np.float64


def test_decimal_commas_with_points_between_thousands(save):
    assert "sep=';', decimal=',', thousands='.')" in refusal(save("a;b\n1.000,5;1\n2.000,5;2\n"))


def test_commas_between_thousands(save, monkeypatch, tmp_path):
    pandas = pytest.importorskip("pandas")
    text = refusal(save('a,b\n"1,000",5\n"12,000",6\n'))
    assert text.endswith("; if it is a decimal, replace thousands by decimal there")
    monkeypatch.chdir(tmp_path)
    exec(text.split("`")[1], {"pandas": pandas})
    np.testing.assert_array_equal(read(tmp_path / "points.csv")[1], [[1000, 5], [12000, 6]])


def test_decimal_commas_between_commas(save):
    path = save("a,b\n0,5,1,25\n1,5,2,25\n")
    assert refusal(path) == (
        ": row 1 has 4 fields, not 2 as the first line ('0,5,1,25'); if these are decimal commas, write decimals with "
        "a point"
    )


def test_decimal_commas_in_a_file_that_could_store_numbers(save):
    text = refusal(save({"a": ["0,5"] * 5}, "text.parquet"))
    assert text == ": column 'a' writes numbers with a comma ('0,5' in row 1); store the column as numbers"


def test_a_row_of_other_length_that_is_not_utf8(save, capfd):
    """pyarrow itself printed a traceback for it."""
    assert refusal(save(b"a,b\n1,2\n1,2,\xff\n")).startswith(": row 2 has 3 fields, not 2 as the first line ('1,2,")
    assert capfd.readouterr().err == ""
