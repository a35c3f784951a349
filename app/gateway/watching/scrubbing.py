"""Take out of logs and settings what nobody shows to strangers: secrets, words said to models, who and where.

What names this computer and its user is known to `hardware.redaction`; here comes what only programs write: keys,
passwords in addresses, addresses of other computers, folders, and prompts that engines put into their logs.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.hardware.redaction import Private
from app.hardware.redaction import Redactor as Names
from app.supervisor.logs import Redactor as Known

HIDDEN = "***"
LEFT_OUT = "(words left out)"

_KEYS = re.compile(r"\b(?:rh-|sk-|hf_|gh[pousr]_|xox[abprs]-)[A-Za-z0-9_-]{8,}")
"""Access keys by how they begin: ours, OpenAI's and Anthropic's, Hugging Face's, GitHub's, Slack's."""
_SCHEMES = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_NAMED = re.compile(
    r"((?:api[_-]?key|[a-z]{0,30}[_-]key|token|secret|passw(?:or)?d|authorization|cookie)s?[\"']?\s*[=:]\s*[\"']?)"
    r"[^\s\"',;&}]{8,}",
    re.IGNORECASE,
)
"""Eight characters at least: engines also write "EOS token = 2"."""
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^/\s@]{1,500}@", re.IGNORECASE)
_WEIGHTS = re.compile(
    r"(?<![\w/.~>])(?:[A-Za-z]:)?(?:[/\\][^/\\\s\"':]{1,255}){1,40}[/\\]([^/\\\s\"':]{1,255}\.(?:gguf|safetensors|bin|onnx|part))"
)
"""A model's file by its whole path, in a folder that is none of those we know: only its name is told."""
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9a-f:]*:[0-9a-f]*:)[0-9a-f:]+(?:\.\d{1,3}){0,3}(?:%\w+)?(?![\w:])", re.IGNORECASE)
_SAID = re.compile(
    r"\b((?:prompt|content|messages?|inputs?|text|query|response|completion|generated|user|assistant|system)"
    r"(?:_text|_str)?[\"']?\s*[:=]\s*)[\"'\[{`].*",
    re.IGNORECASE | re.DOTALL,
)
"""A field that holds what was said, and something quoted: all that follows may be it, brackets and quotes included."""


class Scrubber:
    """Cleans any number of texts and values. `folders` are replaced by a name for what they are, longest first."""

    def __init__(self, *, secrets: Iterable[str], folders: Mapping[str, str], private: Private) -> None:
        self._known = Known([secret for secret in secrets if secret])
        longest = sorted((folder for folder in folders if len(folder) > 1), key=len, reverse=True)
        self._folders = [(re.compile(re.escape(folder) + r"(?![\w-])"), folders[folder]) for folder in longest]
        self._names = Names(private)

    def text(self, text: str) -> str:
        """Return what a program of ours wrote, without what is private."""
        cleaned: str = self._names.value(self._cleaned(text))
        return cleaned

    def engine_line(self, line: str) -> str:
        """Return what an engine wrote: some put what they were asked into their logs."""
        return self.text(_SAID.sub(lambda found: found[1] + LEFT_OUT, line))

    def value(self, found: Any) -> Any:  # noqa: ANN401 -- JSON of any shape
        """Return plain JSON with every text in it cleaned; names of fields stay."""
        if isinstance(found, Mapping):
            return {key: self.value(value) for key, value in found.items()}
        if isinstance(found, list):
            return [self.value(value) for value in found]
        return self.text(found) if isinstance(found, str) else found

    def _cleaned(self, text: str) -> str:
        text = self._known.clean(text)
        text = _KEYS.sub(HIDDEN, text)
        text = _SCHEMES.sub(rf"\g<1> {HIDDEN}", text)
        text = _NAMED.sub(rf"\g<1>{HIDDEN}", text)
        text = _IN_ADDRESS.sub(rf"\g<1>{HIDDEN}@", text)
        for folder, name in self._folders:
            text = folder.sub(name.replace("\\", r"\\"), text)
        text = _WEIGHTS.sub(r".../\g<1>", text)
        text = _MAIL.sub("[mail address]", text)
        return _IPV6.sub(_address, _IPV4.sub(_address, text))


def _address(found: re.Match[str]) -> str:
    """Return a stand-in for another computer's address; versions and times of day only look like one."""
    try:
        address = ipaddress.ip_address(found[0].partition("%")[0])
    except ValueError:
        return found[0]
    return found[0] if address.is_loopback or address.is_unspecified else "[address]"
