"""Read many files, each in a fork of this process with the limits that a file is read with: `python -m` this FOLDER.

Starting a process for each would take minutes. A line of JSON for each file goes to standard output: its number, what
came of it, and how much of the processor it took; `died` is the signal that ended it.
"""

import json
import os
import sys
from pathlib import Path

import msgspec

from app.core.attachments import Extraction
from app.extraction import packages, pdf, pictures, sheets  # noqa: F401 -- read once, for all forks
from app.extraction.plain_text import read_page
from app.extraction.program import extract, limit_process
from tests.file_corpus import read_corpus

assert sys.platform != "win32", "nothing forks there"  # the type checker stops reading here then


def main(folder: Path) -> None:
    """Read all files of a folder that `tests.file_corpus` wrote."""
    read_page("<html>warm</html>")
    for number, file in enumerate(read_corpus(folder)):
        sys.stdout.write(json.dumps({"number": number, **read_in_fork(file.name, folder / str(number))}) + "\n")
        sys.stdout.flush()


def read_in_fork(name: str, path: Path) -> dict[str, object]:
    """Return what came of one file."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        limit_process()
        with os.fdopen(writer, "wb") as output:
            output.write(describe(name, path.read_bytes()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        answer = source.read()
    _, status, usage = os.wait4(child, 0)
    outcome = json.loads(answer) if answer and not status else {"died": os.waitstatus_to_exitcode(status)}
    return {**outcome, "cpu_s": usage.ru_utime + usage.ru_stime}


def describe(name: str, content: bytes) -> bytes:
    """Return what a file gives, without its pictures."""
    result = extract(name, content)
    if isinstance(result, Extraction):
        nothing = {"picture": b"", "thumbnail": b"", "page_pictures": (), "sound": b""}
        result = msgspec.structs.replace(result, text=result.text[:2000], **nothing)
    return msgspec.json.encode(result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
