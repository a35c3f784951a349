"""A probe child: `python -m app.hardware FAMILY` prints one `Part` as JSON. Standard error is evidence."""

import sys

import msgspec

from app.hardware.evidence import live
from app.hardware.families import family


def main() -> int:
    """Run the family named on the command line."""
    evidence = live()
    part = family(evidence.system, sys.argv[1])(evidence)
    sys.stdout.buffer.write(msgspec.json.encode(msgspec.structs.replace(part, raw=evidence.raw())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
