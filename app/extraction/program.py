"""Read one file in a process of its own with limits: `python -P -m app.extraction.program`.

The name comes as a line of JSON on standard input, the file's bytes after it; an `Extraction` or an
`ExtractionProblem` goes to standard output as MessagePack. It opens no file and needs none but its own programs.
"""

import os
import sys

import msgspec

from app.core.attachments import LONGEST_TEXT, Extraction, ExtractionProblem, FileProblem
from app.extraction.problems import UnreadableFile, damage_problem, excess_problem, no_text_problem
from app.extraction.reading import read_file

MEMORY_BYTES = 1 << 30
"""Of addresses. The largest picture takes 360 MB when decoded, and half as much to be turned."""
CPU_S = 30
"""A PDF of a thousand pages takes two seconds."""


def main() -> None:
    """Read, extract, and write what came of it."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print what they think of a file
    limit_process()
    name = msgspec.json.decode(sys.stdin.buffer.readline(), type=str)
    with output:
        output.write(msgspec.msgpack.encode(extract(name, sys.stdin.buffer.read())))


def limit_process() -> None:
    """Set the limits that the system has: Windows has none of them, macOS only that of time."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 -- not on Windows

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def extract(name: str, content: bytes) -> Extraction | ExtractionProblem:
    """Return what a file gives, or why it gives nothing."""
    if not content:
        return ExtractionProblem(code=FileProblem.EMPTY, sentence="This file is empty.", hint="Choose another one.")
    try:
        extraction = read_file(name, content)
    except UnreadableFile as error:
        return error.problem
    except MemoryError:
        return excess_problem().problem
    except Exception as error:  # noqa: BLE001 -- a parser that stumbles over a file: nothing but that file is at stake
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return damage_problem("file").problem
    has_more = extraction.picture or extraction.page_pictures or extraction.sound
    if not has_more and not extraction.text.strip():
        return no_text_problem("file").problem
    return _cut(extraction)


def _cut(extraction: Extraction) -> Extraction:
    # A lone surrogate, which some formats can hold, is in no UTF-8.
    text = extraction.text[:LONGEST_TEXT].encode(errors="replace").decode()
    is_cut = extraction.is_cut or len(extraction.text) > LONGEST_TEXT
    return msgspec.structs.replace(extraction, text=text, is_cut=is_cut)


if __name__ == "__main__":
    main()
