"""Reports as the command line writes them: whole, self-contained, small, and never in the way of the results."""

import html
import json
import re
import shlex
import shutil

import numpy as np
import pytest

from commands import small
from narrows.cli import main
from narrows.runs.folder import RunFolder

MEGABYTES = 1_000_000
SECTIONS = ["training", "gates", "dimensions", "reconstructions", "errors", "traversals", "samples", "settings"]
FAST = small(recipe="fast", n=6, log_every=10)


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', page)


def specs(page: str) -> dict[str, dict]:
    found = re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', page, re.DOTALL)
    return {name: json.loads(content) for name, content in found}


def assert_self_contained(page: str) -> None:
    """Nothing that a browser would fetch: sources are data, links lead to places in or beside the page."""
    assert "default-src 'none'" in page
    assert all(source.startswith("data:") for source in re.findall(r'src="([^"]*)"', page))
    assert not any("//" in link for link in re.findall(r'href="([^"]*)"', page))
    assert "<link" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert len(page.encode()) < 5 * MEGABYTES


def test_a_run_leaves_a_whole_report(squares, capsys):
    page = (squares / "report.html").read_text()
    result = RunFolder(squares).read_result()
    assert_self_contained(page)
    assert sections(page) == SECTIONS
    assert f"{result.dims} of {result.n}" in page
    assert f"at most {result.heldout.high:.4g} with" in page
    drawn = specs(page)
    assert set(drawn) == {"curve-0", "curve-1", "curve-2", "curve-3", "gate-lines", "scree-chart", "errors-chart"}
    assert (
        sum(line.get("open", False) for line in drawn["gate-lines"]["gates"]) == RunFolder(squares).read_rows()[-1].open
    )
    assert sum(drawn["errors-chart"]["counts"]) == 30
    assert len(re.findall(r"<figure><figcaption>(?:Best|Median|Worst)<", page)) == 3
    assert page.count("images, decoded while dimension") == result.dims
    assert all(re.findall(r'<img[^>]* alt="([^"]+)"', page))
    assert page.count("<img") == len(re.findall(r'<img[^>]* alt="[^"]+"', page)) == 3 + result.dims + 1


def test_the_command_in_the_report_makes_the_same_model(squares, tmp_path):
    page = (squares / "report.html").read_text()
    line = html.unescape(re.sub(r"<[^>]+>", "", re.search(r"<pre>(.*?)</pre>", page)[1]))
    program, *words = shlex.split(line)
    assert program == "narrows"
    assert main([*words, "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (squares / "model.safetensors").read_bytes()


def test_report_writes_the_same_page_again_and_elsewhere(squares, tmp_path, capsys):
    before = (squares / "report.html").read_text()
    out = tmp_path / "page.html"
    assert main(["report", str(squares), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    assert out.read_text() == before


def test_a_tables_columns_have_errors_and_their_names_stay_text(table):
    page = (table / "report.html").read_text()
    assert_self_contained(page)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "income &amp; more" in page
    assert "Each column&#39;s part of the error" in page
    assert "<img" not in page
    shares = [float(share) for share in re.findall(r'<td class="number">([\d.]+)%</td>', page)]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(100, abs=0.3)
    result = RunFolder(table).read_result()
    assert sum(name.startswith("traversal-") for name in specs(page)) == result.dims


def test_the_report_of_a_killed_run_says_so(squares, tmp_path):
    killed = RunFolder(shutil.copytree(squares, tmp_path / "killed"))
    killed.result.unlink()
    killed.metrics.write_text(killed.metrics.read_text()[:-9])
    assert main(["report", str(killed.path)]) == 0
    page = killed.report.read_text()
    assert "This run has not ended" in page
    assert f"narrows resume {killed.path}" in page
    assert sections(page) == SECTIONS
    killed.model.unlink()
    killed.metrics.unlink()
    assert main(["report", str(killed.path)]) == 0
    page = killed.report.read_text()
    assert "There are no metrics yet." in page
    assert "No model has been saved yet." in page


def test_without_its_data_a_report_lacks_reconstructions_only(squares, tmp_path):
    moved = RunFolder(shutil.copytree(squares, tmp_path / "moved"))
    moved.write_config({**moved.read_config(), "data": str(tmp_path / "gone.npy")})
    assert main(["report", str(moved.path)]) == 0
    page = moved.report.read_text()
    assert "The test inputs could not be read" in page
    assert "gone.npy" in page
    assert sections(page) == [name for name in SECTIONS if name != "errors"]
    assert page.count("images, decoded while dimension") == moved.read_result().dims


def test_changed_data_are_not_used_as_test_inputs(images, tmp_path):
    data, run = tmp_path / "x.npy", RunFolder(tmp_path / "run")
    np.save(data, np.load(images))
    assert main(["train", str(data), "--tau", "60", "--steps", "20", "--out", str(run.path), *FAST]) == 0
    assert main(["report", str(run.path)]) == 0
    assert sections(run.report.read_text()) == SECTIONS
    np.save(data, np.load(images)[:200])
    assert main(["report", str(run.path)]) == 0
    page = run.report.read_text()
    assert f"x is not what {run.path} was trained on" in html.unescape(page)
    assert sections(page) == [name for name in SECTIONS if name != "errors"]


def test_a_report_that_cannot_be_written_is_one_line_and_the_results_are_safe(squares, tmp_path, capsys):
    run = RunFolder(shutil.copytree(squares, tmp_path / "run"))
    run.report.unlink()
    run.report.mkdir()
    assert main(["resume", str(run.path)]) == 0
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert err.startswith("narrows: warning: the report could not be written (")
    assert err.count(str(run.report)) == 1
    assert ".part" not in err
    assert main(["report", str(run.path)]) == 2
    assert capsys.readouterr().err == f"narrows: error: {run.report} is a folder; name a file\n"
    assert f"model:  {run.model}" in out
    run.report.rmdir()
    run.decisions.write_text("step,action,open,error,gates\nnonsense\n")
    assert main(["report", str(run.path)]) == 2
    assert "decisions.csv is damaged near line 2" in capsys.readouterr().err


def test_the_papers_recipe_and_a_plain_vae_have_reports(images, tmp_path):
    for recipe, expected in (("paper", SECTIONS), ("plain", [name for name in SECTIONS if name != "gates"])):
        out = tmp_path / recipe
        words = ["--steps", "30", "--out", str(out), *small(recipe=recipe)]
        assert main(["train", str(images), *(["--tau", "60"] if recipe == "paper" else []), *words]) == 0
        assert sections((out / "report.html").read_text()) == expected


def test_five_hundred_dimensions_and_colours_fit(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 64, 64, 3), dtype=np.uint8)
    np.save(tmp_path / "noise.npy", noise)
    words = ["--tau", "2000", "--steps", "4", "--out", str(tmp_path / "r")]
    assert main(["train", str(tmp_path / "noise.npy"), *words, *small(recipe="fast", n=512, batch=4)]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert_self_contained(page)
    assert RunFolder(tmp_path / "r").read_result().dims == 512
    assert page.count("images, decoded while dimension") == 64
    assert "Shown are the 64 of 512 with the largest cost of removal." in page
    assert len(specs(page)["gate-lines"]["gates"]) == 512


def test_runs_are_compared(squares, table, tmp_path, monkeypatch, capsys):
    other = shutil.copytree(squares, tmp_path / "squares")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "seed": 7}))
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(squares), str(other), str(table)]) == 0
    assert capsys.readouterr().out == "report: compare.html\n"
    page = (tmp_path / "compare.html").read_text()
    assert_self_contained(page)
    assert "3 runs compared" in page
    assert [len(specs(page)[f"curve-{i}"]["series"]) for i in range(4)] == [3, 3, 3, 3]
    assert "compare dimensions, not errors" in page
    assert "squared, in standard deviations" in page
    assert "1 of 3 runs have other inputs" in page
    assert page.count("<img") == 1  # the same inputs through the two models that take them
    assert re.search(r'<th scope="row">seed</th><td>0</td><td>7</td><td>0</td>', page)
    for link in re.findall(r'href="([^"#][^"]*)"', page):
        assert (tmp_path / link).resolve().exists()


def test_a_run_has_one_colour_in_all_charts(squares, tmp_path, monkeypatch):
    unfinished = RunFolder(shutil.copytree(squares, tmp_path / "unfinished"))
    unfinished.result.unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(unfinished.path), str(squares)]) == 0
    page = (tmp_path / "compare.html").read_text()
    assert "compare dimensions" not in page
    drawn = specs(page)
    (cost,) = drawn["costs"]["series"]
    assert [cost["colour"]] == [one["colour"] for one in drawn["curve-0"]["series"] if one["name"] == "squares"]


def test_a_front_has_its_curve_with_links_to_its_models(images, tmp_path):
    out = tmp_path / "front"
    assert main(["front", str(images), "--taus", "60,90", "--steps", "60", "--out", str(out), *FAST]) == 0
    page = (out / "report.html").read_text()
    assert_self_contained(page)
    points = specs(page)["front"]["series"][0]
    assert points["x"] == [60.0, 90.0]
    assert points["links"] == ["tau-60/report.html", "tau-90/report.html"]
    assert all((out / link).exists() for link in points["links"])
    level = (out / "tau-90" / "report.html").read_text()
    assert "narrows front" in level
    assert "--taus 60,90" in level
    shutil.rmtree(out / "tau-90")
    assert main(["report", str(out)]) == 0
    assert "1 of 2 not done yet." in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "report needs the folder of a run"),
        (["nowhere"], "nowhere is not a run folder"),
        (["nowhere", "-o", "page.txt"], "page.txt: the output is a .html file; give it that suffix"),
        (["nowhere", "-o", "missing/page.html"], "the folder missing does not exist; create it first"),
        (["nowhere", "elsewhere"], "nowhere is not a run folder"),
    ],
)
def test_bad_input_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tau", ["0.05", "1e-9", "1e-30", "1e30"])
def test_a_tau_far_from_the_errors_makes_no_larger_report(tmp_path, tau):
    """The histogram had about error / tau bars: values around 2,000 with tau = 0.05 took gigabytes."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", (2_000 + 300 * rng.standard_normal((300, 5))).astype(np.float32))
    settings = ["--values", "any", "--tau", tau, "--steps", "20", "--out", str(tmp_path / "r"), *small()]
    assert main(["train", str(tmp_path / "x.npy"), *settings]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert 10 <= len(specs(page)["errors-chart"]["counts"]) <= 120
    assert len(page.encode()) < MEGABYTES
