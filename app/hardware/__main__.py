"""A probe child: `python -m app.hardware FAMILY` prints one `Part` as JSON. Standard error is evidence."""

import sys

import msgspec

from app.hardware.families import FAMILIES


def main() -> int:
    """Run the family named on the command line."""
    sys.stdout.buffer.write(msgspec.json.encode(FAMILIES[sys.argv[1]]()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
