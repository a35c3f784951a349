"""Presets of chats: a model, a system prompt, a first question and sampling under one name, and files of them.

The texts may have variables, `{{name}}`: what they stand for is asked when a preset is used.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec

from app.core.chats import Chat, Sampling
from app.core.errors import BadRequest, quote_value
from app.core.lm_studio_presets import ForeignPreset, read_lm_studio_preset

LONGEST_NAME = 80
MOST_PRESETS = 1000
"""In the library, and in one file."""
_LONGEST_TEXT = 256 * 1024
_VARIABLE = re.compile(r"\{\{ {0,9}([^\W\d]\w{0,39}) {0,9}\}\}")
_FORMAT = "roundhouse-presets"

_Text = Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)]
PresetName = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^\S(?:[^\r\n]*\S)?$")]


class ChatPreset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a chat is begun with. What is empty stays as it is in the chat."""

    name: PresetName
    model: str = ""
    system_prompt: _Text = ""
    prompt: _Text = ""
    """The question that is put into the composer."""
    sampling: Sampling = Sampling()

    @property
    def variables(self) -> list[str]:
        """The names to be asked for, in the order in which they come."""
        return list(dict.fromkeys(_VARIABLE.findall(f"{self.system_prompt}\n{self.prompt}")))

    def fill_gaps_from(self, chat: Chat) -> "ChatPreset":
        """Return the preset with what it leaves empty as a chat has it."""
        return msgspec.structs.replace(
            self,
            model=self.model or chat.model,
            system_prompt=self.system_prompt or chat.system_prompt,
            sampling=self.sampling.fill_gaps_from(chat.sampling),
        )

    def fill_in(self, values: Mapping[str, str]) -> "ChatPreset":
        """Return the preset with its variables replaced; one without a value stays as it is written."""

        def value_of(match: re.Match[str]) -> str:
            return values.get(match[1], match[0])

        return msgspec.structs.replace(
            self,
            system_prompt=_VARIABLE.sub(value_of, self.system_prompt),
            prompt=_VARIABLE.sub(value_of, self.prompt),
        )


class SavePreset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep a preset. With `replaces`, in place of the one of its name.

    With the id of a `chat`, what the preset leaves empty is as that chat has it: model, system prompt, sampling.
    """

    preset: ChatPreset
    replaces: bool = False
    chat: str = ""


class PresetImport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add presets, all or none; one whose name is taken by another gets a number."""

    presets: Annotated[list[ChatPreset], msgspec.Meta(max_length=MOST_PRESETS)]


class PresetImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of them: the names under which they are, and how many were there already.

    `left_out` are settings of another program's that mean nothing here, by its own names; the reader of a file says.
    """

    added: list[str]
    unchanged: int = 0
    left_out: list[str] = []


class _PresetFile(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    presets: list[ChatPreset]


def write_presets(presets: Iterable[ChatPreset]) -> bytes:
    """Return a file of presets."""
    file = _PresetFile(format=_FORMAT, version=1, presets=list(presets))
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


class PresetFileContent(NamedTuple):
    """The presets of a file, and the names of settings in it that mean nothing here."""

    presets: list[ChatPreset]
    left_out: tuple[str, ...] = ()


def read_presets(data: bytes) -> PresetFileContent:
    """Return the presets of a file: all in it, one by itself, or one of LM Studio's. Raises BadRequest for others."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("The file is not JSON.", hint=_EXPECTED, code="invalid_value") from None
    foreign = read_lm_studio_preset(fields) if isinstance(fields, dict) else None
    if foreign is not None:
        return PresetFileContent([_build_preset(foreign)], foreign.left_out)
    if not isinstance(fields, dict) or ("presets" not in fields and "name" not in fields):
        raise BadRequest("The file has no presets.", hint=_EXPECTED, code="invalid_value")
    if "presets" in fields and fields.get("format") != _FORMAT:
        raise BadRequest("The file is in another format.", hint=_EXPECTED, code="invalid_value")
    entries = fields.get("presets", [fields])
    if not isinstance(entries, list) or len(entries) > MOST_PRESETS:
        raise BadRequest(f"A file has up to {MOST_PRESETS:,} presets.", hint=_EXPECTED, code="invalid_value")
    return PresetFileContent([_read_preset(entry, place) for place, entry in enumerate(entries, 1)])


_EXPECTED = "Choose a file that was exported here, or a preset of LM Studio."


def _build_preset(foreign: ForeignPreset) -> ChatPreset:
    """Return what another program's preset is here. Raises BadRequest for a system prompt that is too long."""
    if len(foreign.system_prompt) > _LONGEST_TEXT:
        raise BadRequest("The system prompt of the preset is too long.", code="invalid_value")
    name = " ".join(foreign.name.split())[:LONGEST_NAME].strip() or "LM Studio"
    return ChatPreset(name=name, system_prompt=foreign.system_prompt, sampling=foreign.sampling)


def _read_preset(entry: object, place: int) -> ChatPreset:
    name = entry.get("name") if isinstance(entry, dict) else None
    words = f"Preset {place}" + (f" ({quote_value(name)})" if isinstance(name, str) else "")
    try:
        preset = msgspec.convert(entry, ChatPreset)
        preset.sampling.check_forms()
    except msgspec.ValidationError as error:
        raise BadRequest(f"{words} is wrong: {error}.", code="invalid_value") from None
    except BadRequest as error:
        raise BadRequest(f"{words} is wrong: {error.body.sentence}", hint=error.hint, code="invalid_value") from None
    return preset
