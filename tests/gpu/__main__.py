"""`python -m tests.gpu [--write]`: try every engine on the card that is here, in at most 25 minutes."""

import argparse
import datetime as dt
import os
import time

from tests.gpu import parts, places, report

BUDGET_S = 25 * 60.0
_PACKAGES = ("exllamav3", "exllamav2", "vllm", "sglang")


def main() -> int:
    """Run all parts; fail where one failed. Without a card every part says so, and that is no failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the result into docs/internals/gpu-runs.md")
    parser.add_argument("--minutes", type=float, default=BUDGET_S / 60, help="how long it may take")
    wishes = parser.parse_args()
    deadline = time.monotonic() + wishes.minutes * 60
    cards = places.read_cards()
    interpreters: list[places.Interpreter] = []
    if cards:
        why = places.unpack_wheels(os.environ)
        if why:
            print(f"Carried wheels: {why}.")  # noqa: T201 -- it talks to a terminal
        paths = dict.fromkeys(path for path in places.list_interpreters(os.environ) if path.exists())
        interpreters = [places.look_into(path, _PACKAGES) for path in paths]
    machine = parts.Machine(
        interpreters=interpreters,
        deadline=deadline,
        has_card=bool(cards),
        program=parts.find_program(dict(os.environ)),
    )
    results: list[parts.PartResult] = []
    for result in parts.run_parts(machine, parts.PARTS):
        results.append(result)
        print(report.terminal_line(result), flush=True)  # noqa: T201 -- as above
        if wishes.write and any(other.state != "skipped" for other in results):
            report.write_table(report.table_of(results, cards, dt.datetime.now(tz=dt.UTC).date()))
    return int(any(result.state == "failed" for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
