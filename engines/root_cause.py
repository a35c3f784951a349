"""The exception that began it all, out of a log in which several processes wrote tracebacks over each other."""

import re
from collections.abc import Sequence

_BEGINS = re.compile(r"Traceback \(most recent call last\)")
_PREFIX = re.compile(
    r"^(\((?P<who>[^)]*)\)\s*)?((ERROR|CRITICAL)\s[\d-]+ [\d:]+\s\[[^\]]*\]\s?|\[[^\]]*\]\s|\d{4}-\S+ \S+ - ERROR - )?"
)
"""Who wrote a line and when, as vLLM, SGLang and Python's logging put it."""
_EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Fault|Failure)\w*)(: .*)?$")

_WORKER = "worker: "
"""How `worker_base` begins what it ends with."""


def root_cause(lines: Sequence[str]) -> str:
    """Return the last line of the first traceback, e.g. "ValueError: no", or a worker's last word; else nothing."""
    plain = [_PREFIX.sub("", line, count=1).rstrip() for line in lines]
    begun = next((number for number, line in enumerate(plain) if _BEGINS.search(line)), None)
    if begun is None:
        return next((line for line in plain if line.startswith(_WORKER)), "")
    return next((line for line in plain[begun + 1 :] if _EXCEPTION.match(line)), "")
