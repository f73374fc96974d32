"""Reading the IWPC data: what is understood, what is refused, and that all forms give one table."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xlsxwriter
import xlwt

from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle_studies.environments import iwpc, sheets
from bridle_studies.environments.iwpc import COLUMNS, FLAGS, read_patients
from bridle_studies.environments.warfarin import PATIENT_SCHEMA, Warfarin

# The columns that are used, among some that are not, and three without a name.
HEADER = ["Project Site", *COLUMNS[:4], "Ethnicity", *COLUMNS[4:], "Target INR", "", "", ""]
RACE = "Race"


def patient(number=1, **changes):
    """A made-up patient, with nothing missing; keys are columns with _ for what is no letter."""
    row = dict.fromkeys(HEADER, "0") | {
        "": "",
        "PharmGKB Subject ID": f"PA{number:04}",
        "Therapeutic Dose of Warfarin": "28.00",
        "Gender": "male",
        RACE: "White",
        "Age": "60 - 69",
        "Height (cm)": "180.34",
        "Weight (kg)": "90.7",
        "CYP2C9 consensus": "*1/*2",
        "VKORC1 -1639 consensus": "A/G",
    }
    short = {"id": "PharmGKB Subject ID", "dose": "Therapeutic Dose of Warfarin"}
    short |= {"height": "Height (cm)", "weight": "Weight (kg)", "sex": "Gender", "race": RACE}
    short |= {"age": "Age", "cyp": "CYP2C9 consensus", "vkorc": "VKORC1 -1639 consensus"}
    short |= {name: column for column, name in FLAGS.items()}
    return row | {short[key]: value for key, value in changes.items()}


def cells_of(rows, header=HEADER):
    return [header, *([row[name] for name in header] for row in rows)]


def write_csv(path, cells):
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(cells)
    return path


def number_or_text(cell):
    """As a spreadsheet program takes what is typed in."""
    try:
        return float(cell)
    except ValueError:
        return cell


def write_xlsx(path, cells, top=0, typed=True, sheet="Subject Data"):
    with xlsxwriter.Workbook(path) as book:
        book.add_worksheet("Metadata").write(0, 0, "Nothing of use stands here")
        book.add_worksheet("Empty")
        page = book.add_worksheet(sheet)
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                page.write(top + i, j, number_or_text(cell) if typed else cell)
    return path


def write_xls(path, cells):
    book = xlwt.Workbook()
    book.add_sheet("Metadata").write(0, 0, "Nothing of use stands here")
    page = book.add_sheet("Subject Data")
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell != "":
                page.write(i, j, number_or_text(cell))
    book.save(str(path))
    return path


@pytest.fixture
def made_up(tmp_path):
    """Write these patients as a csv, and give its path."""
    return lambda *rows: write_csv(tmp_path / "made-up.csv", cells_of(rows))


@pytest.fixture(scope="session")
def real():
    """The folder with the real data, where there is one."""
    root = Path(__file__).resolve().parents[3]
    data = Path(os.environ.get("BRIDLE_DATA", root.parent / "shared" / "data")) / "warfarin"
    if not data.is_dir():
        pytest.skip(f"the IWPC data are not at {data}; set BRIDLE_DATA to the folder above it")
    return data


def assert_same(one, two):
    assert one.contexts.tobytes() == two.contexts.tobytes()
    assert one.dose.tobytes() == two.dose.tobytes()
    assert one.sha256 == two.sha256
    assert one.origin.notes == two.origin.notes


# --- what is understood -------------------------------------------------------------------


def test_a_patient_comes_back_in_words(made_up):
    path = made_up(
        patient(1, sex="female", race="Black or African American", age="90+", aspirin="1"),
        patient(2, age="10 - 19", smoker="1", cyp="*1/*1", vkorc="G/G", dose="49"),
    )
    patients = read_patients(path)
    assert patients.dose.tolist() == [28.0, 49.0]
    one, two = (patients.context(row) for row in (0, 1))
    assert one | {"aspirin": False} == {
        **dict.fromkeys(FLAGS.values(), False),
        **{"age": 9.0, "female": True, "race": "Black", "height": 180.34, "weight": 90.7},
        **{"VKORC1": "A/G", "CYP2C9": "*1/*2"},
    }
    assert one["aspirin"] is True
    assert (two["age"], two["smoker"], two["female"]) == (1.0, True, False)
    # The reference genotypes have no column.
    assert two["CYP2C9"] is None and two["VKORC1"] is None
    for row in (0, 1):
        again = PATIENT_SCHEMA.encode(patients.context(row))
        assert again.tobytes() == patients.contexts[row].tobytes()


def test_each_column_of_the_file_has_its_own_column(made_up):
    everything = [patient(i, **{name: "1"}) for i, name in enumerate(FLAGS.values())]
    contexts = read_patients(made_up(patient(99), *everything)).contexts
    changed = [np.flatnonzero(row != contexts[0]).tolist() for row in contexts[1:]]
    assert changed == [[PATIENT_SCHEMA.columns.index(name)] for name in FLAGS.values()]


def test_gaps_are_filled_as_the_docstring_says(made_up):
    gaps = dict.fromkeys(("sex", "race", "age", "height", "weight", "cyp", "vkorc", "smoker"), "NA")
    path = made_up(
        patient(1, **gaps),
        patient(2, age="50 - 59", height="150.0", weight="50.5"),
        patient(3, age="70 - 79", height="161.02", weight="60.7", cyp="*1/*11", aspirin=""),
        # Counted nowhere, for it has no dose.
        patient(4, age="10 - 19", height="200", weight="200", cyp="*1/*5", dose="NA"),
    )
    patients = read_patients(path)
    one = patients.context(0)
    assert (one["age"], one["height"], one["weight"]) == (6.0, 155.51, 55.6)
    assert (one["female"], one["race"], one["smoker"]) == (False, "unknown", False)
    assert (one["VKORC1"], one["CYP2C9"]) == ("unknown", "unknown")
    assert patients.context(2)["CYP2C9"] == "unknown"
    assert patients.origin.notes == (
        "without a dose: 1 of 4 patients, left out",
        "unknown age: 1, taken as 6 (decade)",
        "unknown height: 1, taken as 155.51 (cm)",
        "unknown weight: 1, taken as 55.6 (kg)",
        "unknown sex: 1, counted as male",
        "rare CYP2C9 genotype: 1 (*1/*11: 1), counted as unknown",
    )


def test_columns_are_found_by_name_in_any_order_case_and_spacing(tmp_path):
    rows = [patient(1, dose="14"), patient(2, sex="female", weight="55.3")]
    plain = read_patients(write_csv(tmp_path / "a.csv", cells_of(rows)))
    order = HEADER[::-1]
    cells = cells_of(rows, order)
    cells[0] = [name.upper().replace(" ", "\n ") + "  " for name in order]
    assert_same(read_patients(write_csv(tmp_path / "b.csv", cells)), plain)
    # As the published spreadsheet calls it, beside another race that does not count.
    cells = cells_of(rows)
    cells[0] = ["Race (OMB)" if name == RACE else name for name in HEADER]
    cells[0][0] = "Race (Reported)"
    assert_same(read_patients(write_csv(tmp_path / "c.csv", cells)), plain)


def test_blank_rows_are_skipped_and_counted(tmp_path):
    cells = cells_of([patient(1), patient(2)])
    cells.insert(2, [" "] * len(HEADER))
    cells.append([""] * len(HEADER))
    path = write_csv(tmp_path / "a.csv", cells)
    path.write_bytes(path.read_bytes() + b"\r\n")
    patients = read_patients(path)
    assert len(patients) == 2 and "blank rows: 3, skipped" in patients.origin.notes


def test_the_origin_says_where_they_came_from(made_up):
    path = made_up(patient())
    origin = read_patients(path).origin
    assert (origin.title, origin.synthetic) == ("IWPC warfarin", False)
    assert origin.licence == "PharmGKB, CC BY-SA 4.0"
    assert origin.url == "https://www.pharmgkb.org/downloads"
    assert list(origin.files) == ["made-up.csv"] and len(origin.files["made-up.csv"]) == 64
    assert origin.notes == ("without a dose: 0 of 1 patients, left out",)


def test_a_folder_stands_for_the_one_file_in_it(made_up, tmp_path):
    plain = read_patients(made_up(patient()))
    (tmp_path / "README.md").write_text("not this one")
    assert_same(read_patients(tmp_path), plain)
    assert_same(read_patients(str(tmp_path)), plain)


# --- spreadsheets -------------------------------------------------------------------------


def many_patients(count):
    draw = random.Random(7)
    return [
        patient(
            i,
            dose=draw.choice(["NA", "", "21", "21.00", f"{draw.uniform(3, 90):.2f}", "26.25"]),
            # More digits than a spreadsheet shows.
            height=draw.choice(["NA", "165.10", repr(draw.uniform(130, 200))]),
            weight=draw.choice(["NA", "70", repr(draw.uniform(40, 120))]),
            age=draw.choice(["20 - 29", "90+", "NA"]),
            race=draw.choice(["Asian", "Unknown", "White"]),
            smoker=draw.choice(["1", "0", "NA", ""]),
            cyp=draw.choice(["*1/*1", "*2/*3", "NA", "*1/*13"]),
        )
        for i in range(count)
    ]


def test_csv_and_spreadsheets_of_the_same_data_agree_in_every_bit(tmp_path):
    cells = cells_of(many_patients(200))
    plain = read_patients(write_csv(tmp_path / "a.csv", cells))
    assert_same(read_patients(write_xls(tmp_path / "a.xls", cells)), plain)
    assert_same(read_patients(write_xlsx(tmp_path / "a.xlsx", cells)), plain)
    # All cells as text, a sheet of another name, and the table further down.
    path = write_xlsx(tmp_path / "b.xlsx", cells, top=3, typed=False, sheet="Blatt 1")
    assert_same(read_patients(path), plain)


def test_rows_of_a_spreadsheet_are_numbered_as_the_sheet_does(tmp_path):
    cells = cells_of([patient(1), patient(2, height="17")])
    for top, row in ((0, "row 3"), (4, "row 7")):
        path = write_xlsx(tmp_path / f"a{top}.xlsx", cells, top=top)
        with pytest.raises(InvalidValue, match=rf"a{top}.xlsx, {row}, patient PA0002"):
            read_patients(path)


def test_the_real_csv_and_spreadsheets_of_it_agree_in_every_bit(real, tmp_path):
    with (real / "warfarin.csv").open(encoding="utf-8-sig", newline="") as file:
        cells = list(csv.reader(file))[::8]  # to write them all takes long
    assert len(cells) > 700
    plain = read_patients(write_csv(tmp_path / "a.csv", cells))
    assert_same(read_patients(write_xlsx(tmp_path / "a.xlsx", cells)), plain)
    assert_same(read_patients(write_xls(tmp_path / "a.xls", cells)), plain)


def test_the_real_csv(real):
    patients = read_patients(real)
    assert len(patients) == 5_528
    shares = Warfarin(patients).rewards.mean(axis=0)
    assert shares.round(4).tolist() == [0.2704, 0.6118, 0.1178, 0.0]
    assert patients.contexts.min() >= 0.0 and patients.contexts.max() <= 1.0
    assert patients.origin.notes[0] == "without a dose: 172 of 5,700 patients, left out"
    assert "blank rows: 1, skipped" in patients.origin.notes
    assert any("rare CYP2C9 genotype: 17 (" in note for note in patients.origin.notes)
    for row in range(0, 5_528, 97):
        again = PATIENT_SCHEMA.encode(patients.context(row))
        assert again.tobytes() == patients.contexts[row].tobytes()


def test_a_damaged_spreadsheet_is_told_from_a_good_one(tmp_path):
    whole = write_xlsx(tmp_path / "a.xlsx", cells_of([patient()])).read_bytes()
    old = write_xls(tmp_path / "a.xls", cells_of([patient()])).read_bytes()
    (tmp_path / "a.csv").write_bytes(whole)
    with pytest.raises(CorruptState, match=r"a\.csv is no csv in UTF-8"):
        read_patients(tmp_path / "a.csv")
    for name, data in (
        ("a.xlsx", b""),
        ("a.xlsx", b"a,b\n1,2\n"),
        ("a.xlsx", whole[:3000]),
        ("a.xls", old[:3000]),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CorruptState, match=f"{name} cannot be read as a spreadsheet: .* anew"):
            read_patients(tmp_path / name)


def test_a_spreadsheet_that_asks_for_too_much_memory_does_not_end_the_process(tmp_path):
    # Two cells at opposite ends: libraries make room for all that is between, 2**34 cells.
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        page = book.add_worksheet()
        page.write(0, 0, "Therapeutic Dose of Warfarin")
        page.write(2**20 - 1, 2**14 - 1, 1.0)
    with pytest.raises(CorruptState, match="asks for too much memory"):
        read_patients(tmp_path / "a.xlsx")


def test_a_spreadsheet_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = write_xlsx(tmp_path / "a.xlsx", cells_of([patient()]))
    monkeypatch.setattr(sheets, "MAX_UNPACKED", 1_000)
    with pytest.raises(InvalidValue, match="at most 1,000 bytes unpacked"):
        read_patients(path)
    monkeypatch.undo()
    monkeypatch.setattr(sheets, "MAX_SECONDS", 0)
    with pytest.raises(CorruptState, match="no end after 0 s"):
        read_patients(path)


@pytest.mark.parametrize("library", ["polars", "fastexcel"])
def test_without_the_extra_a_spreadsheet_says_what_to_install(tmp_path, monkeypatch, library):
    path = write_xlsx(tmp_path / "a.xlsx", cells_of([patient()]))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NotPossible, match=rf"needs {library}: pip install \./studies"):
        read_patients(path)


def test_a_csv_needs_no_extra(made_up):
    path = made_up(patient())
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('polars', 'fastexcel', 'scipy', 'pooch')));"
        "from bridle_studies.environments.iwpc import read_patients; "
        "print(len(read_patients(sys.argv[1])))"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, check=True)
    assert done.stdout.strip() == b"1"


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "column", "expected"),
    [
        ({"dose": "much"}, "Therapeutic Dose of Warfarin", r"\(0, 500\]. Got 'much'"),
        ({"dose": "-7"}, "Therapeutic Dose of Warfarin", r"\(0, 500\]. Got '-7'"),
        ({"dose": "0"}, "Therapeutic Dose of Warfarin", r"\(0, 500\]. Got '0'"),
        ({"dose": "3500"}, "Therapeutic Dose of Warfarin", r"\(0, 500\]. Got '3500'"),
        ({"dose": "inf"}, "Therapeutic Dose of Warfarin", "Got 'inf'"),
        ({"dose": "1e999"}, "Therapeutic Dose of Warfarin", "Got '1e999'"),
        ({"dose": "1_4"}, "Therapeutic Dose of Warfarin", "Got '1_4'"),
        ({"height": "17"}, r"Height \(cm\)", r"\[100, 220\]. Got '17' instead. Correct it"),
        ({"height": "17", "dose": "NA"}, r"Height \(cm\)", "Got '17'"),
        ({"weight": "-3"}, r"Weight \(kg\)", r"\[20, 260\]. Got '-3' instead. Correct it"),
        ({"weight": "nan"}, r"Weight \(kg\)", "Got 'nan'"),
        ({"race": "Elf"}, "Race", "Got 'Elf' instead. Known: 'white'"),
        ({"race": "Asain"}, "Race", "Did you mean 'asian'"),
        ({"age": "60 to 69"}, "Age", "Got '60 to 69'"),
        ({"age": "65"}, "Age", "a word of the IWPC data, or empty. Got '65'"),
        ({"sex": "M"}, "Gender", "Got 'M'"),
        ({"smoker": "2"}, "Current Smoker", "0, 1 or empty. Got '2'"),
        ({"aspirin": "yes"}, "Aspirin", "0, 1 or empty. Got 'yes'"),
        ({"cyp": "*1"}, "CYP2C9 consensus", "a genotype. Got '\\*1'"),
        ({"vkorc": "G/T"}, "VKORC1 -1639 consensus", "a genotype. Got 'G/T'"),
    ],
)
def test_a_wrong_value_is_named_with_row_and_patient(made_up, changes, column, expected):
    path = made_up(patient(1), patient(2), patient(3, **changes))
    where = f"'{column}' parameter of made-up.csv, row 4, patient PA0003 must be .*{expected}"
    with pytest.raises(InvalidValue, match=where):
        read_patients(path)


def test_ids_are_given_and_differ(made_up):
    with pytest.raises(InvalidValue, match=r"row 3, patient PA0001 .*\(row 2 has the same\)"):
        read_patients(made_up(patient(1), patient(1)))
    with pytest.raises(InvalidValue, match=r"row 3, patient .* Give the patient an id"):
        read_patients(made_up(patient(1), patient(2, id=" ")))


def test_a_truncated_csv(made_up):
    path = made_up(*map(patient, range(5)))
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with pytest.raises(CorruptState, match=r"row 6 has \d+ fields, the header has 37. Is the file"):
        read_patients(path)
    path.write_bytes(whole.replace(b"PA0003", b'"PA0003'))
    with pytest.raises(CorruptState, match="is no csv: unexpected end of data"):
        read_patients(path)


def test_the_truncated_real_csv(real, tmp_path):
    whole = (real / "warfarin.csv").read_bytes()
    path = tmp_path / "warfarin.csv"
    path.write_bytes(whole[:1_000_000])
    with pytest.raises(CorruptState, match="Is the file cut short"):
        read_patients(path)


def test_missing_columns_are_named(tmp_path):
    less = [name for name in HEADER if name not in ("Race", "Height (cm)")]
    path = write_csv(tmp_path / "a.csv", cells_of([patient()], less))
    with pytest.raises(InvalidValue, match=r"It lacks: Race, Height \(cm\)\."):
        read_patients(path)
    for text in ("", "a,b\r\n1,2\r\n", "\r\n"):
        path.write_text(text)
        with pytest.raises(InvalidValue, match=r"It lacks: PharmGKB Subject ID, .* and 26 more"):
            read_patients(path)
    twice = write_csv(tmp_path / "b.csv", [[*HEADER, "age "], [*cells_of([patient()])[1], "90+"]])
    with pytest.raises(InvalidValue, match="one column 'Age'"):
        read_patients(twice)
    path = write_xlsx(tmp_path / "a.xlsx", [["movie", "stars"], ["Heat", "5"]])
    with pytest.raises(InvalidValue, match=r"has the column 'Therapeutic Dose.*'Subject Data'\]"):
        read_patients(path)


def test_somebody_must_have_a_dose_and_a_height(made_up):
    with pytest.raises(InvalidValue, match="at least one patient has a therapeutic dose"):
        read_patients(made_up(patient(dose="NA")))
    with pytest.raises(InvalidValue, match="at least one patient has a therapeutic dose"):
        read_patients(made_up())
    with pytest.raises(InvalidValue, match="the height of at least one patient with a dose"):
        read_patients(made_up(patient(1, height=""), patient(2, dose="")))


def test_wrong_paths(made_up, tmp_path):
    wanted = "the IWPC csv or spreadsheet .* The data are at https://www.pharmgkb.org"
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "notes.txt").write_text("Therapeutic Dose of Warfarin")
    wrong = [tmp_path / "nowhere.csv", empty, tmp_path / "notes.txt", "", 7, None, "a\0b.csv"]
    for path in wrong:
        with pytest.raises(InvalidValue, match=wanted):
            read_patients(path)
    made_up(patient())
    (tmp_path / "z.xls").write_bytes(b"")
    with pytest.raises(InvalidValue, match=r"It holds made-up\.csv, z\.xls: give one of these"):
        read_patients(tmp_path)


def test_limits_on_size(made_up, monkeypatch):
    path = made_up(*map(patient, range(5)))
    monkeypatch.setattr(iwpc, "MAX_ROWS", 4)
    with pytest.raises(InvalidValue, match="at most 4 rows"):
        read_patients(path)
    monkeypatch.setattr(iwpc, "MAX_BYTES", 100)
    with pytest.raises(InvalidValue, match="at most 100 bytes"):
        read_patients(path)


def test_limits_on_the_size_of_a_sheet(tmp_path, monkeypatch):
    path = write_xlsx(tmp_path / "a.xlsx", cells_of(map(patient, range(5))))
    monkeypatch.setattr(iwpc, "MAX_ROWS", 4)
    with pytest.raises(InvalidValue, match="at most 4 rows and 1,000 columns a sheet"):
        read_patients(path)


def test_whatever_is_wrong_with_a_csv_there_is_one_kind_of_error(made_up):
    path = made_up(*map(patient, range(3)))
    whole = path.read_bytes()
    draw = random.Random(3)
    refused = 0
    for _ in range(300):
        data = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.3 else whole)
        for _ in range(draw.choice([1, 3, 30])):
            data[draw.randrange(len(data)) : draw.randrange(len(data))] = draw.randbytes(2)
            data = data or bytearray(b",")
        path.write_bytes(data)
        try:
            read_patients(path)
        except BridleError:
            refused += 1
    assert refused > 200
