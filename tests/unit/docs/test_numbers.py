"""Tables of the docs show what was measured."""

import json
import re
from pathlib import Path

import pytest

from transop.artifacts import read_json
from transop.errors import UserError
from transop_paper.numbers import TABLES, interval, refresh, render
from transop_paper.steps import STEPS

ROOT = Path(__file__).parents[3]
MEASUREMENTS = ROOT / "docs" / "measurements"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKED = [page for page in PAGES if "<!-- numbers: " in page.read_text()]

# Tables with measured numbers that no file of docs/measurements stands behind yet. Lower it when
# one gets its marks; a new table of measurements needs a JSON file and marks from the start.
MOST_UNMARKED = 6


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_marked_tables_show_the_stored_measurements(page):
    text = page.read_text()
    remedy = "write the tables anew with: transop paper numbers"
    assert refresh(text, MEASUREMENTS) == text, remedy


def test_every_mark_has_its_end():
    for page in PAGES:
        text = page.read_text()
        marks = text.count("<!-- numbers: ") + text.count("<!-- cell: ")
        assert marks == text.count("<!-- end -->"), page


def test_no_mark_of_a_number_begins_a_line():
    # Markdown would take the whole line for HTML.
    for page in PAGES:
        assert not re.search(r"^\s*<!-- cell: ", page.read_text(), flags=re.MULTILINE), page


def test_every_measured_number_of_the_readme_stands_between_marks():
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"<!-- (numbers|cell): .*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    allowed = {"0.3", "2.0", "3.11"}  # a length, a licence, a version of Python
    assert set(re.findall(r"\d+\.\d+|\d+ %", text)) <= allowed


def measured_tables(text):
    """Find tables outside of marks in which a row has two decimal numbers or one with ±."""
    text = re.sub(r"<!-- numbers: .*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    for table in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        rows = table.splitlines()[2:]
        if any("±" in row or len(re.findall(r"\d\.\d", row)) > 1 for row in rows):
            yield table


def test_no_new_table_of_measurements_is_written_by_hand():
    pages = [page for page in PAGES if page.stem != "dependencies"]  # versions of licences
    found = {page.name: list(measured_tables(page.read_text())) for page in pages}
    count = sum(map(len, found.values()))
    listed = {name: len(tables) for name, tables in found.items() if tables}
    assert count <= MOST_UNMARKED, f"{count} tables: {listed}"


def test_the_count_sees_measurements_and_leaves_other_tables_alone():
    measured = "| a | b |\n|---|---|\n| x | 90.1 ± 0.2 |\n\n| a | b |\n|---|---|\n| 0.1 | 0.2 |\n"
    other = "| setting | default |\n|---|---|\n| `a = 0.1` | 0.5 |\n"
    marked = f"<!-- numbers: x -->\n{measured}<!-- end -->\n"
    assert len(list(measured_tables(measured))) == 2
    assert list(measured_tables(other + marked)) == []


def test_every_file_of_measurements_belongs_to_a_step():
    names = {file.stem for file in MEASUREMENTS.glob("*.json")}
    assert names <= {"reproduce", *(step.name for step in STEPS)}


@pytest.mark.parametrize("file", sorted(MEASUREMENTS.glob("*.json")), ids=lambda file: file.stem)
def test_measurements_are_json_and_name_no_folder_of_a_machine(file):
    text = file.read_text()
    json.loads(text)
    assert not re.search(r"/(work|root|home|tmp|Users)/", text)


def test_a_page_is_written_anew_and_stays_the_same_otherwise():
    page = "before\n<!-- numbers: attack -->\nold\n<!-- end -->\nafter\n"
    written = refresh(page, MEASUREMENTS)
    assert written.startswith("before\n<!-- numbers: attack -->\n\n| kind | tried |")
    assert written.endswith("\n<!-- end -->\nafter\n")
    assert refresh(written, MEASUREMENTS) == written


def test_a_changed_measurement_changes_the_page(tmp_path):
    attack = read_json(MEASUREMENTS / "attack.json")
    attack["by_kind"]["data"]["used"] += 1
    (tmp_path / "attack.json").write_text(json.dumps(attack))
    page = "<!-- numbers: attack -->\n<!-- end -->\n"
    assert refresh(page, tmp_path) != refresh(page, MEASUREMENTS)


def test_a_sentence_takes_its_number_from_a_table():
    place = "attack | all | refused"
    page = f"<!-- cell: {place} -->many<!-- end --> refused; <!-- cell: {place} --><!-- end -->"
    total = read_json(MEASUREMENTS / "attack.json")["by_kind"]
    refused = sum(kind.get("refused", 0) for kind in total.values())
    mark = f"<!-- cell: {place} -->{refused}<!-- end -->"
    assert refresh(page, MEASUREMENTS) == f"{mark} refused; {mark}"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("attack | nonsense | used", "'attack' has no row 'nonsense'; choose from data, "),
        ("attack | all | nonsense", "'attack' has no column 'nonsense'; choose from kind, tried"),
    ],
)
def test_a_number_that_is_not_in_the_table_is_named(place, message):
    with pytest.raises(UserError, match=message):
        refresh(f"<!-- cell: {place} -->1<!-- end -->", MEASUREMENTS)


def test_a_kind_of_attack_of_which_nothing_was_used_has_a_zero():
    kinds = {"data": {"tried": 5, "refused": 5}, "http": {"tried": 2, "used": 2}}
    text = render("attack", lambda _: {"by_kind": kinds})
    assert text.splitlines()[2:] == [
        "| data | 5 | 0 | 5 |",
        "| http | 2 | 2 | 0 |",
        "| all | 7 | 2 | 5 |",
    ]


def test_known_angles_are_shown_with_their_range_and_what_is_missing_stays_empty():
    readings = [{"held-out one": 0.5}, {"held-out one": 0.9}, {"held-out one": -0.001}]
    readings[0]["unseen one"] = 0.3
    seeds = {str(k): {"straight lines": {"angle": one}} for k, one in enumerate(readings)}
    lines = render("ground-truth-drawn", lambda _: {"seeds": seeds}).splitlines()
    assert "| straight lines | 0.47 (0.00 to 0.90) | | | 0.30 (one seed) | |" in lines
    assert "| 16 operators, time | | | | | |" in lines


@pytest.mark.parametrize("length", [None, 1e6])
def test_a_turn_that_left_the_data_on_one_seed_runs_away(length):
    name = "one generator for all objects, fitted with the angle"
    turns = [{"closing": 0.2, "angle error": 20, "shown": 0.5, "length": x} for x in (1, length)]
    part = "fitted with the angle, all"
    seeds = {str(k): {part: {"turn, best operator": turn}} for k, turn in enumerate(turns)}
    text = render("ground-truth-turntable-turns", lambda _: {"seeds": seeds})
    row = f"| {name} | 0.20 (0.20 to 0.20) | 20 (20 to 20) | 0.50 (0.50 to 0.50) | runs away |"
    assert row in text.splitlines()
    seeds["1"] = {}  # not measured is not the same as run away
    text = render("ground-truth-turntable-turns", lambda _: {"seeds": seeds})
    assert "1.00 (one seed) |" in text
    assert "runs away" not in text


def test_the_best_augmentation_of_a_line_is_bold_and_strengths_are_left_out():
    means = {"none": 10.04, "randaugment": 20, "transport-guarded": 20}
    by_test = {
        row: dict.fromkeys(("fog", "mean of the fifteen changes"), means[row]) for row in means
    }
    facts = {
        "rows": list(means),
        "tests": ["fog", "rotate 15"],
        "mean_accuracy": {"10 per class": by_test},
    }
    assert render("robustness-mnist-10", lambda _: {"facts": facts}).splitlines() == [
        "| change | none | RandAugment | learned, guarded |",
        "|---|---|---|---|",
        "| fog | 10.0 | **20.0** | **20.0** |",
        "| mean of the fifteen changes | 10.0 | **20.0** | **20.0** |",
    ]


def test_rows_with_the_same_labels_are_compared_with_elastic_distortion_seed_by_seed():
    def row(name, *accuracies):
        mean = sum(accuracies) / len(accuracies)
        common = {"row": name, "title": name, "n_seeds": len(accuracies), "deviation": 0.5}
        return {**common, "mean": mean, "accuracies": accuracies}

    def read(file):
        found = {"table1": row("elastic", 90, 92), "few-labels": row("transport-100", 91, 95)}
        return {"rows": [found[file.rpartition("-")[0]]]}

    lines = render("same-labels", read).splitlines()
    assert lines[2] == "| MNIST | elastic | 91.0 ± 0.5 | 2 | |"
    assert lines[3] == "| MNIST | transport-100 | 93.0 ± 0.5 | 2 | +2.0 ± 1.0 |"
    with pytest.raises(KeyError):  # a quick table 1 has other rows
        render("same-labels", lambda file: {"rows": [row("none", 1, 2)]})


def test_learned_moves_are_compared_with_noise_seed_by_seed():
    def rows(kind, *accuracies):
        numbers = {"mean": sum(accuracies) / 2, "deviation": 1.0, "accuracies": accuracies}
        parts = ("guarded", "100-elastic", "100-guarded-elastic")
        return [{"row": f"{kind}-{part}", "title": part, **numbers} for part in parts]

    found = {"rows": [*rows("transport", 91, 95), *rows("noise", 90, 92)]}
    lines = render("controls", lambda _: found).splitlines()
    assert lines[2] == "| MNIST: guarded | 93.0 ± 1.0 | 91.0 ± 1.0 | +2.0 ± 1.0 |"
    assert len(lines) == 8
    short = render("controls-in-short", lambda _: found).splitlines()[2:]
    assert short == [line.replace("guarded", "ranges and guard") for line in (lines[2], lines[5])]


def test_steps_are_listed_with_their_commits_and_the_total():
    step = {"about": "digits", "seconds": 119.0, "commit": "0123456789ab", "other_commits": []}
    step["is_current"] = True
    other = {**step, "commit": None, "other_commits": ["abcdef0123456-dirty"], "is_current": False}
    total = {"hours": 0.1, "steps": {"one": step, "two": other}}
    assert render("steps", lambda _: total).splitlines()[2:] == [
        "| `one` | digits | 2.0 | 0123456789 |",
        "| `two` | digits (measured by earlier commands) | 2.0 | unknown, abcdef0123 |",
        "| all | | 6 | |",
    ]


def test_an_unknown_table_is_named():
    with pytest.raises(UserError, match="no table 'nonsense'; choose from kept-identity-mnist"):
        refresh("<!-- numbers: nonsense -->\n<!-- end -->", MEASUREMENTS)


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([0.5], {}, "50.0"),
        ([0.5, 0.5], {}, "50.0"),
        ([1, 2, 3], {"unit": 1}, "2.0 ± 2.5"),  # 4.303 / sqrt(3)
        ([0.01, 0.03], {"sign": "+"}, "+2.0 ± 12.7"),
    ],
)
def test_intervals_are_those_of_student(values, options, expected):
    assert interval(values, **options) == expected


@pytest.mark.parametrize("name", TABLES)
def test_a_table_whose_measurements_are_there_is_a_table(name):
    try:
        text = render(name, lambda file: read_json(MEASUREMENTS / f"{file}.json"))
    except UserError as error:
        assert "does not exist" in str(error)  # noqa: PT017  (not measured yet)
        return
    head, rule, *rows = text.splitlines()
    assert re.fullmatch(r"\|(---\|)+", rule)
    assert rows
    assert {line.replace(r"\|", "").count("|") for line in (head, rule, *rows)} == {rule.count("|")}
