"""A probe child: `python -m app.hardware FAMILY` prints one `ProbePart` as JSON. Standard error is evidence.

`python -m app.hardware free FAMILY...` stays, and tells what is free of graphics memory whenever it is sent a line;
`python -m app.hardware energy` tells what NVIDIA's cards have used.
"""

import sys

import msgspec

from app.hardware.child_answers import ENERGY, FREE


def main() -> int:
    """Run the family named on the command line, or be a child that stays."""
    if sys.argv[1] == FREE:
        from app.hardware.free import serve_child  # noqa: PLC0415 -- each child imports what it needs

        return serve_child()
    if sys.argv[1] == ENERGY:
        from app.hardware.cards.nvidia_energy import serve_energy  # noqa: PLC0415 -- as above

        return serve_energy()
    return _print_family(sys.argv[1])


def _print_family(name: str) -> int:
    from app.hardware.evidence import live_evidence  # noqa: PLC0415 -- as above
    from app.hardware.families import find_family  # noqa: PLC0415 -- as above

    evidence = live_evidence()
    part = find_family(evidence.system, name)(evidence)
    sys.stdout.buffer.write(msgspec.json.encode(msgspec.structs.replace(part, raw=evidence.export_raw())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
