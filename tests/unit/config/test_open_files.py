"""The limit is raised, as far as it can be, and never lowered."""

import subprocess
import sys

import pytest

from app.config.open_files import MANY

pytest.importorskip("resource")

RAISES = """
import resource, sys
from app.config.open_files import raise_open_file_limit
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
most = int(sys.argv[2]) if len(sys.argv) > 2 else hard
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), most))
print(raise_open_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def limits(*values: int) -> list[int]:
    """Return what `raise_open_file_limit` says and what is so, in a process given a soft and perhaps a hard limit."""
    argv = [sys.executable, "-c", RAISES, *map(str, values)]
    return [int(word) for word in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()]


def test_a_program_started_with_few_gets_more() -> None:
    lines, is_so = limits(256)
    assert lines == is_so
    assert 256 < is_so <= MANY


def test_no_more_than_the_system_allows() -> None:
    assert limits(200, 300) == [300, 300]


def test_what_is_enough_stays() -> None:
    assert limits(300, 300) == [300, 300]
