from __future__ import annotations

import hashlib
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle_studies.environments import layouts
from bridle_studies.environments.movielens import read_block
from tests.studies.environments.made_up import (
    EDITIONS,
    MOVIES,
    OPTIONS,
    RATINGS_FILE,
    lay_out,
    pack,
)


@pytest.fixture
def unpacking(tmp_path, monkeypatch):
    """The folder in which zips are unpacked."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The block that every layout of the same ratings must give."""
    return read_block(lay_out(tmp_path_factory.mktemp("plain"), "ml-20m"), **OPTIONS)


def assert_same(block, expected, edition):
    assert np.array_equal(block.ratings, expected.ratings)
    assert np.array_equal(block.contexts, expected.contexts)
    assert block.movies == expected.movies
    assert block.people == expected.people
    assert block.origin.title == EDITIONS[edition]
    ages = edition in ("ml-100k", "ml-1m")
    assert (block.bands is not None) == (block.band is not None) == ages


@pytest.mark.parametrize("edition", EDITIONS)
class TestEveryEdition:
    def test_as_a_folder(self, edition, tmp_path, expected):
        assert_same(read_block(lay_out(tmp_path / edition, edition), **OPTIONS), expected, edition)

    def test_as_a_folder_in_a_folder(self, edition, tmp_path, expected):
        lay_out(tmp_path / "downloads" / edition, edition)
        assert_same(read_block(str(tmp_path / "downloads"), **OPTIONS), expected, edition)

    def test_as_each_of_its_files(self, edition, tmp_path, expected):
        folder = lay_out(tmp_path / edition, edition)
        for file in folder.iterdir():
            assert_same(read_block(file, **OPTIONS), expected, edition)

    @pytest.mark.parametrize("inside", ["", "of-itself/", "far/down/"])
    def test_as_a_zip(self, edition, inside, tmp_path, expected, unpacking):
        folder = lay_out(tmp_path / "files", edition)
        path = pack(folder, tmp_path / f"{edition}.zip", inside)
        block = read_block(path, **OPTIONS)
        assert_same(block, expected, edition)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert block.origin.files == {f"{edition}.zip": digest}
        assert not list(unpacking.iterdir())

    def test_as_a_folder_that_holds_the_zip(self, edition, tmp_path, expected):
        folder = lay_out(tmp_path / "files", edition)
        (tmp_path / "got").mkdir()
        pack(folder, tmp_path / "got" / "download.ZIP", f"{edition}/")
        assert_same(read_block(tmp_path / "got", **OPTIONS), expected, edition)

    def test_sums_are_of_the_files_that_were_read(self, edition, tmp_path):
        folder = lay_out(tmp_path / edition, edition)
        (folder / "README").write_text("not read")
        files = read_block(folder, **OPTIONS).origin.files
        there = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}
        del there["README"]
        assert files == there
        assert RATINGS_FILE[edition] in files


def test_other_files_of_the_set_point_at_it_too(tmp_path):
    folder = lay_out(tmp_path, "ml-20m")
    (folder / "tags.csv").write_text("userId,movieId,tag,timestamp\n")
    assert read_block(folder / "tags.csv", **OPTIONS).ratings.shape == (5, 4)


def test_a_name_with_signs_that_mean_something_elsewhere(tmp_path):
    folder = lay_out(tmp_path / "ml [20m] *? ü", "ml-20m")
    assert read_block(folder, **OPTIONS).ratings.shape == (5, 4)


def test_several_data_sets_are_named_and_one_is_asked_for(tmp_path):
    lay_out(tmp_path / "ml-1m", "ml-1m")
    pack(lay_out(tmp_path / "ml-20m", "ml-20m"), tmp_path / "small.zip", "small/")
    with pytest.raises(InvalidValue, match="must be one data set") as caught:
        read_block(tmp_path, **OPTIONS)
    for name in ("ml-1m (ratings.dat)", "ml-20m (ratings.csv)", "small.zip/small (ratings.csv)"):
        assert name in str(caught.value)
    assert "Point at the one" in str(caught.value)


def test_two_layouts_in_one_folder_are_two_data_sets(tmp_path):
    lay_out(lay_out(tmp_path, "ml-1m"), "ml-20m")
    with pytest.raises(InvalidValue, match="must be one data set"):
        read_block(tmp_path, **OPTIONS)
    assert read_block(tmp_path / "ratings.dat", **OPTIONS).bands is not None
    assert read_block(tmp_path / "ratings.csv", **OPTIONS).bands is None


def test_two_data_sets_in_one_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as packed:
        for folder in ("a", "b"):
            for name in ("ratings.csv", "movies.csv"):
                packed.writestr(f"{folder}/{name}", "")
    with pytest.raises(InvalidValue, match="out of a zip, unpack it"):
        read_block(tmp_path / "two.zip")


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(InvalidValue, match=r"that exists. Got '.*nowhere' instead"):
        read_block(tmp_path / "nowhere")


@pytest.mark.parametrize("path", [None, 3, "a\0b", ["x"]])
def test_no_path_at_all(path):
    with pytest.raises(InvalidValue, match="'path' parameter of read_block must be a path"):
        read_block(path)


def test_a_wrong_folder_says_what_was_looked_for(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(InvalidValue, match=r"ratings.csv with movies.csv, or ratings.dat with"):
        read_block(tmp_path)


def test_half_a_data_set_says_what_is_missing(tmp_path):
    lay_out(tmp_path, "ml-20m")
    (tmp_path / "ratings.csv").unlink()
    with pytest.raises(InvalidValue, match=r"movies.csv is there without its companion"):
        read_block(tmp_path)
    with pytest.raises(InvalidValue, match=r"companions: .* ratings.csv not in"):
        read_block(tmp_path / "movies.csv")


def test_a_file_with_another_name(tmp_path):
    (tmp_path / "mine.csv").write_text("userId,movieId,rating\n")
    with pytest.raises(InvalidValue, match="the name that MovieLens gave it"):
        read_block(tmp_path / "mine.csv")


def test_a_zip_with_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "else.zip", "w") as packed:
        packed.writestr("x/my-ratings.csv", "")
        packed.writestr("x/movies.csv", "")
    for path in (tmp_path / "else.zip", tmp_path):
        with pytest.raises(InvalidValue, match=r"ratings.csv with movies.csv"):
            read_block(path)


def test_a_folder_with_too_much_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(layouts, "MAX_ENTRIES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(NotPossible, match=r"3 entries, more than 2. Point at"):
        read_block(tmp_path)


def test_a_folder_that_cannot_be_looked_into(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError("no")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(NotPossible, match="cannot be looked into: no"):
        read_block(tmp_path)


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    lay_out(tmp_path, "ml-20m")

    def refuse(self):
        raise PermissionError("no")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        with pytest.raises(NotPossible, match=r"movies\.csv cannot be read: no"):
            read_block(tmp_path)
    monkeypatch.setattr(layouts, "_sha256", refuse)
    with pytest.raises(NotPossible, match="cannot be read: no"):
        read_block(tmp_path, **OPTIONS)


class TestDamagedZips:
    @pytest.fixture
    def path(self, tmp_path):
        return pack(lay_out(tmp_path / "files", "ml-1m"), tmp_path / "ml-1m.zip", "ml-1m/")

    def test_cut_short(self, path):
        whole = path.read_bytes()
        for length in (0, 10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(CorruptState, match=r"ml-1m\.zip is no zip, or was cut short"):
                read_block(path, **OPTIONS)

    def test_not_a_zip(self, path):
        path.write_text("<html>please log in</html>")
        with pytest.raises(CorruptState, match=r"is no zip, or was cut short.* Fetch it again"):
            read_block(path)

    def test_the_only_thing_in_its_folder(self, tmp_path):
        (tmp_path / "ml-1m.zip").write_bytes(b"PK")
        with pytest.raises(CorruptState, match="is no zip"):
            read_block(tmp_path)
        lay_out(tmp_path / "good", "ml-1m")
        assert read_block(tmp_path, **OPTIONS).ratings.shape == (5, 4)

    @pytest.mark.parametrize("name", ["ratings.dat", "movies.dat", "users.dat"])
    def test_a_member_with_a_wrong_checksum(self, name, tmp_path, unpacking):
        folder = lay_out(tmp_path / "files", "ml-1m")
        content = (folder / name).read_bytes()
        path = tmp_path / "ml-1m.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as packed:
            for file in folder.iterdir():
                packed.write(file, file.name)
        whole = path.read_bytes()
        assert content in whole
        path.write_bytes(whole.replace(content, content.replace(b":", b";", 1)))
        with pytest.raises(CorruptState, match=f"{name} in .* cannot be unpacked: Bad CRC-32"):
            read_block(path, **OPTIONS)
        assert not list(unpacking.iterdir())

    def test_a_member_whose_stream_is_broken(self, path, unpacking):
        with zipfile.ZipFile(path) as packed:
            info = packed.getinfo("ml-1m/ratings.dat")
        whole = bytearray(path.read_bytes())
        start = info.header_offset + 30 + len(info.filename)
        whole[start : start + info.compress_size] = b"\xff" * info.compress_size
        path.write_bytes(whole)
        with pytest.raises(CorruptState, match="cannot be unpacked") as caught:
            read_block(path, **OPTIONS)
        assert isinstance(caught.value.__cause__, zlib.error | zipfile.BadZipFile)
        assert not list(unpacking.iterdir())

    def test_a_member_that_is_encrypted(self, path):
        whole = path.read_bytes()
        # Bit 0 of the flags, in the local headers and in the directory.
        for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = whole.find(mark)
            while at >= 0:
                whole = whole[: at + offset] + b"\x01" + whole[at + offset + 1 :]
                at = whole.find(mark, at + 1)
        path.write_bytes(whole)
        with pytest.raises(CorruptState, match=r"cannot be unpacked: .* is encrypted"):
            read_block(path, **OPTIONS)

    def test_bad_data_in_a_zip_leave_nothing_behind(self, tmp_path, unpacking):
        folder = lay_out(tmp_path / "files", "ml-1m", ratings=[(1, 1, 9, 5)])
        path = pack(folder, tmp_path / "x.zip", "")
        with pytest.raises(CorruptState, match=r"x\.zip.ratings\.dat, line 1: a rating must be"):
            read_block(path, **OPTIONS)
        assert not list(unpacking.iterdir())

    def test_no_room_to_unpack(self, path, monkeypatch, unpacking):
        class Full:
            free = 10

        monkeypatch.setattr("shutil.disk_usage", lambda folder: Full)
        with pytest.raises(NotPossible, match=r"needs .* MB .* Make room, or set TMPDIR"):
            read_block(path, **OPTIONS)
        assert not list(unpacking.iterdir())


@pytest.mark.parametrize(
    ("limit", "name"), [("MAX_RATINGS_BYTES", "ratings.csv"), ("MAX_TABLE_BYTES", "movies.csv")]
)
def test_files_have_a_limit(limit, name, tmp_path, monkeypatch):
    folder = lay_out(tmp_path / "files", "ml-20m")
    path = pack(folder, tmp_path / "x.zip", "")
    monkeypatch.setattr(layouts, limit, 100)
    for place in (folder, path):
        with pytest.raises(NotPossible, match=f"{name} has .* at most 0 MB are read"):
            read_block(place, **OPTIONS)


def test_the_made_up_movies_come_back(expected):
    assert set(expected.movies) < {title for title, _ in MOVIES.values()}
    assert "Amélie (2001)" in expected.movies
