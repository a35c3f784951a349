"""A probe child: `python -m app.hardware FAMILY` prints one `ProbePart` as JSON. Standard error is evidence.

`python -m app.hardware free FAMILY...` stays, and tells what is free of graphics memory whenever it is sent a line.
"""

import sys

import msgspec

from app.hardware.evidence import live_evidence
from app.hardware.families import FREE, find_family


def main() -> int:
    """Run the family named on the command line."""
    if sys.argv[1] == FREE:
        from app.hardware.free import serve_child  # noqa: PLC0415 -- half of what a child imports, for the one that stays

        return serve_child()
    evidence = live_evidence()
    part = find_family(evidence.system, sys.argv[1])(evidence)
    sys.stdout.buffer.write(msgspec.json.encode(msgspec.structs.replace(part, raw=evidence.export_raw())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
