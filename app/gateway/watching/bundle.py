"""Everything that helps to find out why something went wrong, as texts that can be read before they are passed on.

No conversation, no prompt, no key, and nothing that says whose computer it is: each text is freed of it here, and what
may quote a prompt, such as an engine's sentence about a request, is left out altogether. What names this computer and
its user is known to `hardware.redaction`; the `Scrubber` takes out what only programs write: keys, passwords in
addresses, addresses of other computers, folders, and prompts that engines put into their logs.
"""

import asyncio
import ipaddress
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from app import __version__
from app.config.paths import PROGRAM, Paths, expand_path
from app.config.store import SettingsStore
from app.core.api import SettingInfo
from app.core.errors import ErrorBody, RoundhouseError
from app.core.machine import BundleFile, DiagnosticBundle, DoctorReport, EngineBuild
from app.engine_store.catalogue import EngineCatalogue
from app.gateway.advising.machine import LLAMA_CPP
from app.gateway.engines.confinement import confinement_report
from app.gateway.loading.launch import devices_of
from app.gateway.services import Services
from app.gateway.watching.inspector import RequestInspector
from app.gateway.watching.metrics import GatewayMetrics
from app.hardware.doctor import examine_and_report
from app.hardware.redaction import PrivateNames, names_here
from app.hardware.redaction import RecordRedactor as Names
from app.store.database import ChatStore
from app.supervisor.logs import LogRedactor as Known
from app.supervisor.pool import Supervisor

GATEWAY_LINES = 1000
ENGINE_LINES = 500
ENGINE_LOGS = 12
"""Of the models used last."""
REQUESTS = 200
_APPLICATION = f"Roundhouse {__version__}"
_TAIL_BYTES = 512 * 1024
_PACKAGES = ("aiohttp", "msgspec", "psutil", "huggingface-hub", "xllamacpp", "PySide6-Essentials")
_PLACES = frozenset({"models.folders", "gateway.allowed_hosts", "gateway.allowed_origins"})
"""Settings that name folders and computers: how many there are is told, and no more."""
_SYSTEMS_OWN = 2
"""Parts of a folder such as /usr, which says nothing of anybody."""
_WITHOUT = ("error",)
"""Of a request: an engine's sentence may quote it."""
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

    def __init__(self, *, secrets: Iterable[str], folders: Mapping[str, str], private: PrivateNames) -> None:
        self._known_secrets = Known([secret for secret in secrets if secret])
        longest = sorted((folder for folder in folders if len(folder) > 1), key=len, reverse=True)
        self._folders = [(re.compile(re.escape(folder) + r"(?![\w-])"), folders[folder]) for folder in longest]
        self._names = Names(private)

    def scrub_text(self, text: str) -> str:
        """Return what a program of ours wrote, without what is private."""
        cleaned_text: str = self._names.redact_value(self._scrub_match(text))
        return cleaned_text

    def engine_line(self, line: str) -> str:
        """Return what an engine wrote: some put what they were asked into their logs."""
        return self.scrub_text(_SAID.sub(lambda match: match[1] + LEFT_OUT, line))

    def scrub_value(self, content: Any) -> Any:  # noqa: ANN401 -- JSON of any shape
        """Return plain JSON with every text in it cleaned; names of fields stay."""
        if isinstance(content, Mapping):
            return {key: self.scrub_value(value) for key, value in content.items()}
        if isinstance(content, list):
            return [self.scrub_value(value) for value in content]
        return self.scrub_text(content) if isinstance(content, str) else content

    def _scrub_match(self, text: str) -> str:
        text = self._known_secrets.redact_text(text)
        text = _KEYS.sub(HIDDEN, text)
        text = _SCHEMES.sub(rf"\g<1> {HIDDEN}", text)
        text = _NAMED.sub(rf"\g<1>{HIDDEN}", text)
        text = _IN_ADDRESS.sub(rf"\g<1>{HIDDEN}@", text)
        for folder, name in self._folders:
            text = folder.sub(name.replace("\\", r"\\"), text)
        text = _WEIGHTS.sub(r".../\g<1>", text)
        text = _MAIL.sub("[mail address]", text)
        return _IPV6.sub(_address, _IPV4.sub(_address, text))


def _address(match: re.Match[str]) -> str:
    """Return a stand-in for another computer's address; versions and times of day only look like one."""
    try:
        address = ipaddress.ip_address(match[0].partition("%")[0])
    except ValueError:
        return match[0]
    return match[0] if address.is_loopback or address.is_unspecified else "[address]"


async def machine_report(catalogue: EngineCatalogue, settings: SettingsStore) -> DoctorReport:
    """Probe this computer now and report. Raises EnvironmentFault when nothing could be read."""
    engines, devices, confinement = await asyncio.gather(
        asyncio.to_thread(list_packages, catalogue),
        asyncio.to_thread(devices_of, catalogue),
        asyncio.to_thread(confinement_report, settings),
    )
    report = await examine_and_report(application=_APPLICATION, engines=engines, devices={LLAMA_CPP: devices})
    return msgspec.structs.replace(report, confinement=confinement)


def list_packages(catalogue: EngineCatalogue) -> list[EngineBuild]:
    """Return the engines that are here."""
    return [
        EngineBuild(id=engine.id, version=engine.version, backend=engine.backend)
        for engine in catalogue.list_engines()
        if engine.installed
    ]


async def collect_bundle(
    services: Services, inspector: RequestInspector, private: PrivateNames | None = None
) -> DiagnosticBundle:
    """Return all of it. `private` is what this computer and its user are called, found out unless given."""
    report = await _report_section(services.catalogue, services.settings)
    scrubber = await asyncio.to_thread(_make_scrubber, services, private)
    files = [
        _document_bytes("versions.json", "What is installed", await asyncio.to_thread(_versions, services.catalogue)),
        _document_bytes("machine.json", "What the probes found on this computer, and the conclusions from it", report),
        _document_bytes(
            "settings.json", "The settings, without folders, names and addresses", _settings(services.settings)
        ),
        _document_bytes("running.json", "The models loaded now", _list_engine_statuses(services.supervisor)),
        _document_bytes("requests.json", "The last requests: times and counts, no words", _requests(inspector)),
        _document_bytes(
            "loads.json", "Measured and predicted memory of loaded models", await services.chats.list_loads()
        ),
        _document_bytes(
            "store.json",
            "The size of the database, without its contents",
            await _store(services.paths, services.chats),
        ),
        BundleFile(
            name="metrics.txt",
            why="Counters since the service started",
            text=_metrics(services.supervisor, services.metrics),
        ),
        *await asyncio.to_thread(_logs, services.paths.logs, scrubber),
    ]
    cleaned_logs = [_clean_log(file, scrubber) for file in files]
    return DiagnosticBundle(
        made_at=time.time(), application=_APPLICATION, files=[_manifest_text(cleaned_logs), *cleaned_logs]
    )


async def _report_section(catalogue: EngineCatalogue, settings: SettingsStore) -> DoctorReport | ErrorBody:
    """Return the report, or why there is none: then the rest is needed all the more."""
    try:
        return await machine_report(catalogue, settings)
    except RoundhouseError as error:
        return error.body


def _make_scrubber(services: Services, private: PrivateNames | None) -> Scrubber:
    paths, folders = services.paths, services.settings.get_list("models.folders")
    named_folders = {str(expand_path(folder)): f"<models {n}>" for n, folder in enumerate(folders, 1)}
    named_folders |= {folder: f"<models {n}>" for n, folder in enumerate(folders, 1)}
    named_folders |= {str(paths.config): "<config>", str(paths.data): "<data>"}
    named_folders |= {str(paths.state): "<state>", str(paths.logs): "<logs>"}
    named_folders |= {str(services.home.folder): "~", str(Path.home()): "~"}
    named_folders |= dict.fromkeys(_program_folders(), "<program>")
    return Scrubber(secrets=[services.identity.token], folders=named_folders, private=private or names_here())


def _program_folders() -> list[str]:
    """Return where this copy of Roundhouse and its Python lie, unless that is where the system keeps all programs."""
    folders = {PROGRAM, PROGRAM.resolve(), Path(sys.prefix), Path(sys.prefix).resolve()}
    return [str(folder) for folder in folders if len(folder.parts) > _SYSTEMS_OWN]


def _document_bytes(name: str, why: str, value: object) -> BundleFile:
    return BundleFile(name=name, why=why, text=_json_bytes(msgspec.to_builtins(value)))


def _json_bytes(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _clean_log(file: BundleFile, scrubber: Scrubber) -> BundleFile:
    """Return a file with nothing private in it, its name included; logs were cleaned line by line."""
    text = file.text
    if file.name.endswith(".json"):
        text = _json_bytes(scrubber.scrub_value(msgspec.json.decode(text)))
    elif not file.name.startswith("logs/"):
        text = "\n".join(map(scrubber.scrub_text, text.split("\n")))
    return BundleFile(name=scrubber.scrub_text(file.name), why=file.why, text=text)


def _manifest_text(files: Sequence[BundleFile]) -> BundleFile:
    contents = [{"name": file.name, "why": file.why, "bytes": len(file.text.encode())} for file in files]
    lines = (
        "Made by `roundhouse doctor --bundle`. Conversations, prompts, keys, host and user names, addresses of other "
        "computers, serial numbers and folders are left out or replaced. Please check it anyway."
    )
    text = _json_bytes({"about": lines, "files": contents})
    return BundleFile(name="manifest.json", why="The contents of this bundle, and why they are included", text=text)


def _versions(catalogue: EngineCatalogue) -> dict[str, object]:
    return {
        "roundhouse": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": dict(_packages()),
        "engines": msgspec.to_builtins(list_packages(catalogue)),
    }


def _packages() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed"


def _settings(settings: SettingsStore) -> list[dict[str, object]]:
    return [
        {"name": info.name, "value": _describe_setting(info), "source": info.source} for info in settings.describe_all()
    ]


def _describe_setting(info: SettingInfo) -> object:
    return f"({len(info.value)})" if info.name in _PLACES and isinstance(info.value, list) else info.value


def _list_engine_statuses(supervisor: Supervisor) -> list[object]:
    """Return each engine's status. Its last lines, and what it said of its failure, are in its log."""
    statuses = [msgspec.to_builtins(status) for status in supervisor.list_statuses()]
    for status in statuses:
        if status.get("failure"):
            status["failure"] = {"code": status["failure"].get("code")}
    return list(statuses)


def _requests(inspector: RequestInspector) -> list[object]:
    requests = [msgspec.to_builtins(info) for info in inspector.list_requests(limit=REQUESTS)]
    return [{name: value for name, value in info.items() if name not in _WITHOUT} for info in requests]


def _metrics(supervisor: Supervisor, metrics: GatewayMetrics) -> str:
    return metrics.format_exposition(supervisor.list_statuses())


async def _store(paths: Paths, chats: ChatStore) -> dict[str, object]:
    size = await asyncio.to_thread(_file_size, paths.database)
    return {"bytes": size, "rows": await chats.count_rows()}


def _file_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _logs(folder: Path, scrubber: Scrubber) -> list[BundleFile]:
    """Return the ends of the service's log and of the engines', cleaned."""
    engines = sorted(folder.glob("engine-*.log"), key=lambda file: -(_read_mtime(file)))[:ENGINE_LOGS]
    own = [("gateway.jsonl", "The service's log, its end"), ("gateway-start.log", "What the service said at its start")]
    log_files = [
        BundleFile(name=f"logs/{name}", why=why, text="\n".join(_own_lines(folder / name, scrubber)))
        for name, why in own
    ]
    for file in engines:
        lines = map(scrubber.engine_line, last_lines(file, ENGINE_LINES))
        log_files.append(BundleFile(name=f"logs/{file.name}", why="An engine's log, its end", text="\n".join(lines)))
    return [file for file in log_files if file.text]


def _read_mtime(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _own_lines(file: Path, scrubber: Scrubber) -> Iterable[str]:
    for line in last_lines(file, GATEWAY_LINES):
        try:
            record = msgspec.json.decode(line)
        except msgspec.DecodeError:
            yield scrubber.engine_line(line)
        else:
            yield msgspec.json.encode(scrubber.scrub_value(record)).decode()


def last_lines(file: Path, count: int) -> list[str]:
    """Return the last whole lines of a file, of its last half mebibyte; none if it cannot be read."""
    try:
        with file.open("rb") as stream:
            stream.seek(0, 2)
            start = max(0, stream.tell() - _TAIL_BYTES)
            stream.seek(start)
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return lines[1 if start else 0 :][-count:]
