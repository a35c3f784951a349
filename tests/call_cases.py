"""Cases of the kinds that benchmarks of tool calls have: what is offered, what a model writes, what a client is to get.

`tests/data/call-cases.json` holds them. `calls` is what the model means; where that is not what it should be by the
tool's schema, `expected_calls` is what becomes of it, and `first` is what it wrote before it was told what was wrong.
"""

from pathlib import Path
from typing import Any

import msgspec

CallTuple = tuple[str, dict[str, Any]]


class CallCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case; `tools` are names in the file's table of schemas."""

    kind: str
    tools: list[str]
    calls: list[CallTuple]
    expected_calls: list[CallTuple] | None = None
    text: str = ""
    first: list[CallTuple] = []

    @property
    def result(self) -> list[CallTuple]:
        """What the client is to get."""
        return self.calls if self.expected_calls is None else self.expected_calls


class _CaseFile(msgspec.Struct, frozen=True):
    tools: dict[str, dict[str, Any]]
    cases: list[CallCase]


_FILE = msgspec.json.decode((Path(__file__).parent / "data" / "call-cases.json").read_bytes(), type=_CaseFile)
CALL_CASES = _FILE.cases


def schemas_of(case: CallCase) -> dict[str, dict[str, Any]]:
    """Return the parameters of the tools that a case offers, by name."""
    return {name: _FILE.tools[name] for name in case.tools}
