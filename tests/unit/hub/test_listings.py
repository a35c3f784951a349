"""A folder is listed again once it changed, and only then."""

import os
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from app.hub.library.candidates import SETTLED_NS, FolderListings, walk_folders


def long_unchanged(folder: Path) -> None:
    """Make a folder look as if nothing came for a while."""
    before = time.time_ns() - 2 * SETTLED_NS
    os.utime(folder, ns=(before, before))


def test_a_settled_folder_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "one").touch()
    long_unchanged(tmp_path)
    listings = FolderListings()
    first = listings.listing_of(str(tmp_path))
    assert first is not None
    assert (first.files, first.folders) == (("one",), ("inner",))
    with patch("app.hub.library.candidates.os.scandir", side_effect=AssertionError("listed")):
        assert listings.listing_of(str(tmp_path)) is first


def test_what_comes_and_goes_is_seen(tmp_path: Path) -> None:
    long_unchanged(tmp_path)
    listings = FolderListings()
    listings.listing_of(str(tmp_path))
    (tmp_path / "new").touch()
    assert [listing.files for _, listing in walk_folders(listings, str(tmp_path), 1, set())] == [("new",)]
    (tmp_path / "new").unlink()
    assert [listing.files for _, listing in walk_folders(listings, str(tmp_path), 1, set())] == [()]


def test_a_folder_that_changed_just_now_is_listed_every_time(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    listings = FolderListings()
    listings.listing_of(str(tmp_path))
    before = tmp_path.stat()
    (tmp_path / "two").touch()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # within the same tick of the clock
    listing = listings.listing_of(str(tmp_path))
    assert listing is not None
    assert listing.files == ("one", "two")


def test_another_folder_of_that_name_is_listed(tmp_path: Path) -> None:
    folder, other = tmp_path / "models", tmp_path / "other"
    for place in (folder, other):
        place.mkdir()
    (other / "theirs").touch()
    before = time.time_ns() - 2 * SETTLED_NS
    for place in (folder, other):
        os.utime(place, ns=(before, before))
    listings = FolderListings()
    listings.listing_of(str(folder))
    folder.rmdir()
    other.rename(folder)
    listing = listings.listing_of(str(folder))
    assert listing is not None
    assert listing.files == ("theirs",)


def test_where_a_link_leads_is_looked_at_every_time_while_it_leads_nowhere(tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    (tmp_path / "models").mkdir()
    try:
        (tmp_path / "models" / "link").symlink_to(drive, target_is_directory=True)
    except OSError:
        pytest.skip("this system lets nobody make links")
    long_unchanged(tmp_path / "models")
    listings = FolderListings()
    first = listings.listing_of(str(tmp_path / "models"))
    drive.mkdir()
    second = listings.listing_of(str(tmp_path / "models"))
    assert first is not None
    assert second is not None
    assert (first.folders, second.folders) == ((), ("link",))


def test_a_folder_that_is_gone_and_one_nobody_asks_for_are_forgotten(tmp_path: Path) -> None:
    long_unchanged(tmp_path)
    listings = FolderListings()
    first = listings.listing_of(str(tmp_path))
    listings.forget_unused()
    assert listings.listing_of(str(tmp_path)) is first
    listings.forget_unused()
    listings.forget_unused()
    assert listings.listing_of(str(tmp_path)) is not first
    assert listings.listing_of(str(tmp_path / "nowhere")) is None
