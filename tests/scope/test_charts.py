"""Charts show the numbers of the profile, in any browser's width, to keyboards too, whatever a program's names are."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from browser import FITS, NUM_REQUESTS, needs_chromium, seen, without_scripts

from drivetrain import scope
from drivetrain.scope.report import bars, beside, beside_page, chart, page
from drivetrain.scope.report.chart import MOST_ROWS, Bar, Chart, Line, Row
from drivetrain.scope.report.frame import color_of, document
from drivetrain.scope.report.shares import Share, shares

LIBRARY = Path(chart.__file__).parent / "plot"
SHA_256 = "59cab6880693ffbbf97225850c0376a7ce1db78035813d8d91b543eb340797d6"
NAMES = ["</script><script>parent.document.title = 'mine'</script>", "<!--<script>", "名前 é ∑ \u2028", "&lt;b&gt;'\""]
TRUE_TO_SCALE = """[...document.querySelectorAll('figure')].every((figure) => {
  const { low, high, rows } = JSON.parse(figure.querySelector('script').textContent);
  const wide = (one) => one.getBoundingClientRect().width;
  const track = wide(figure.querySelector('[aria-label=bar] rect'));
  const told = rows.flatMap((row) => row.lines.flatMap((line) => line.bars.map(([from, to]) => to - from)));
  const drawn = [...figure.querySelectorAll('.parts rect')].map(wide);
  return told.length === drawn.length && told.every((x, i) => Math.abs(x / (high - low) - drawn[i] / track) < 0.003);
})"""
SAID = "JSON.stringify([...document.querySelectorAll('.parts title')].map((one) => one.textContent))"
NUM_BROKEN = "[...document.querySelectorAll('figure')].filter((one) => one.hidden || !one.querySelector('svg')).length"


def record(folder, names, *, num_steps=3):
    with scope.session(folder, calibrate_every=0):
        for _ in range(num_steps):
            for name in names:
                with scope.operation(name):
                    sum(range(1000))
            scope.mark_step()
    return scope.load(folder)


def charts_of(text):
    found = re.findall('<script type="application/json">(.*?)</script>', text)
    return [json.loads(one) for one in found]


def test_the_library_is_the_one_that_its_recipe_makes_and_brings_its_licences():
    script = (LIBRARY / "plot.js").read_bytes()
    assert hashlib.sha256(script).hexdigest() == SHA_256, "run plot/bundle.mjs, and say its new digest here"
    version = json.loads((LIBRARY / "package.json").read_text())["dependencies"]["@observablehq/plot"]
    assert script.startswith(f"/* @observablehq/plot {version} (ISC) and what it needs;".encode())
    licences = (LIBRARY / "LICENSES.txt").read_text()
    packages = re.findall(r"^=+\n(\S+) [\d.]+ \((.+)\)\n=+$", licences, re.MULTILINE)
    assert ("@observablehq/plot", "ISC") in packages
    assert ("d3-scale", "ISC") in packages
    assert licences.count("Permission to use, copy, modify") >= len(packages)
    assert not re.search(rb"\beval\(|new Function|fetch\(|XMLHttpRequest|</script|import\(", script)


def test_bars_of_a_profile_have_the_lengths_and_words_of_its_shares(tmp_path):
    profile = record(tmp_path / "run", ["simulation", "mine"])
    found = shares(profile.breakdown())
    by_operation, corrected, over_time = charts_of(page.render(profile, "page"))
    lengths = {
        by_operation["kinds"][kind]["says"].partition(":")[0]: to - start
        for row in by_operation["rows"]
        for line in row["lines"]
        for start, to, kind in line["bars"]
    }
    assert lengths == {f"{share.operation}, {share.time_class}": share.raw_ns for share in found}
    told = {row["label"]: row["lines"][0] for row in corrected["rows"]}
    for share in found:
        if line := told.get(f"{share.operation}, {share.time_class}"):
            assert line["bars"][0][1] == share.corrected_ns
            assert line["interval"] == [share.low_ns, share.high_ns]
            assert line["outline"] == share.raw_ns
    assert over_time["over_time"]


def test_what_is_corrected_to_less_than_nothing_is_drawn_left_of_nothing():
    one = Share(operation="mine", time_class="python", raw_ns=50, corrected_ns=-10.0, low_ns=-40.0, high_ns=20.0)
    (drawn,) = charts_of(bars.render({"": [one]}, color_of(["mine"])))
    assert drawn["low"] == -40
    assert drawn["rows"][0]["lines"][0]["bars"][0][:2] == [-10, 0]


def test_a_chart_of_nothing_is_not_there_and_of_too_many_rows_says_what_it_leaves_out():
    assert Chart(says="none", rows=[], unit="s").render() == ""
    assert Chart(says="none", rows=[Row(label="a", lines=[Line()])], unit="s").render() == ""
    rows = [Row(label=str(i), lines=[Line(bars=[Bar(start=0, stop=1, color="red", says="")])]) for i in range(40)]
    text = Chart(says="many", rows=rows, unit="s").render()
    assert f"{40 - MOST_ROWS} more rows are not drawn." in text
    assert len(charts_of(text)[0]["rows"]) == MOST_ROWS


@pytest.mark.parametrize("names", [[], ["one"]], ids=["empty", "one step"])
def test_a_page_of_next_to_nothing_has_its_words_and_no_script_of_its_own(tmp_path, names):
    profile = record(tmp_path / "run", names, num_steps=len(names))
    text = without_scripts(page.render(profile, "page"))
    assert "<script" not in text
    assert text.count("<h2") == 9
    assert "<noscript>" in text


@pytest.mark.whole
@needs_chromium
def test_strange_names_many_operations_and_long_ones_are_drawn_to_scale_and_run_nothing(tmp_path):
    names = [*NAMES, "x" * 100_000, *(f"operation {i}" for i in range(40))]
    profile = record(tmp_path / "run", names)
    text = page.render(profile, "page")
    assert len(text) < 3_000_000
    said = [chart["kinds"][bar[2]]["says"] for chart in charts_of(text)[:2] for row in chart["rows"]
            for line in row["lines"] for bar in line["bars"]]  # fmt: skip
    shown = seen(text, tmp_path, FITS, NUM_REQUESTS, NUM_BROKEN, TRUE_TO_SCALE, SAID)
    assert shown.startswith("true,0,0,true,")
    assert json.loads(shown.removeprefix("true,0,0,true,"))[: len(said)] == said
    assert any(NAMES[0] in one for one in said)


@pytest.mark.whole
@needs_chromium
def test_charts_of_runs_side_by_side_speak_to_a_keyboard_and_follow_the_width(tmp_path):
    profiles = {name: record(tmp_path / name, ["simulation", "mine"]) for name in ("before", "after")}
    text = beside_page.render(beside.lettered(profiles), "page")
    figure = "document.querySelector('figure')"
    press = f"{figure}.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'ArrowRight', bubbles: true }})) && 0"
    chosen = f"{figure}.querySelectorAll('.chosen').length"
    says = f"{figure}.querySelector('output').textContent === {figure}.querySelector('.parts title').textContent"
    focus = f"({figure}.focus(), document.activeElement === {figure} && {figure}.getAttribute('aria-label') !== '')"
    named = f"{figure}.querySelector('svg').getAttribute('aria-label') === {figure}.getAttribute('aria-label')"
    fits = "document.querySelector('svg').getBoundingClientRect().right <= innerWidth"
    shown = seen(text, tmp_path, TRUE_TO_SCALE, focus, press, chosen, says, named, fits, width=1600)
    assert shown == "true,true,0,1,true,true,true"


@pytest.mark.whole
@needs_chromium
def test_a_script_that_is_not_the_pages_own_does_not_run(tmp_path):
    inserted = "<script>document.body.id = 'ran'</script><img src=x onerror=\"document.body.id = 'ran'\">"
    text = document("page", "facts", [("heading", inserted)])
    assert seen(text, tmp_path, "document.body.id === ''") == "true"
