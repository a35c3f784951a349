"""Tools whose settings no file holds that another program may edit: what a person does, with values to copy.

Cline and Roo Code keep theirs in VS Code's database and its store of secrets; JetBrains AI Assistant in the IDE's;
Open WebUI in a database of its own, with variables that are read at its first start.
"""

from pathlib import Path
from urllib.parse import urlsplit

from app.config.paths import Home
from app.connect.tool import KEY, ClientTool, ToolRoute, WiringTarget
from app.core.tools import ToolValue


def _endpoint_values(wiring: WiringTarget) -> list[ToolValue]:
    return [
        ToolValue(name="Base URL", value=wiring.openai),
        ToolValue(name="API key", value=KEY),
        ToolValue(name="Model", value=wiring.model),
    ]


def _extension_folders(home: Home, name: str) -> tuple[Path, ...]:
    folders = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor")
    return tuple(home.folder / folder / "extensions" / f"{name}-*" for folder in folders)


CLINE = ClientTool(
    id="cline",
    name="Cline",
    route=ToolRoute.CHAT,
    traces=lambda home: (*_extension_folders(home, "saoudrizwan.claude-dev"), home.folder / ".cline"),
    steps=lambda _wiring: [
        "Open Cline in VS Code and click the gear.",
        "Choose the API provider OpenAI Compatible.",
        "Fill in the values below.",
    ],
    values=_endpoint_values,
    afterwards="The next task uses it.",
)
ROO_CODE = ClientTool(
    id="roo-code",
    name="Roo Code",
    route=ToolRoute.CHAT,
    traces=lambda home: _extension_folders(home, "rooveterinaryinc.roo-cline"),
    steps=lambda _wiring: [
        "Open Roo Code in VS Code and click the gear, then Providers.",
        "Add a profile with the API provider OpenAI Compatible.",
        "Fill in the values below and save.",
    ],
    values=_endpoint_values,
    afterwards="Choose the profile below the box you type in.",
)
JETBRAINS = ClientTool(
    id="jetbrains",
    name="JetBrains AI Assistant",
    route=ToolRoute.CHAT,
    traces=lambda home: (home.support / "JetBrains",),
    steps=lambda _wiring: [
        "Open Settings, Tools, AI Assistant, Models.",
        "Choose OpenAI-compatible among the third-party providers.",
        "Fill in the base URL and test the connection.",
        "Assign the model to the features that should use it.",
    ],
    values=_endpoint_values,
    afterwards="The model is in the list of the AI chat.",
)


def _web_values(wiring: WiringTarget) -> list[ToolValue]:
    in_container = f"http://host.docker.internal:{urlsplit(wiring.base).port}/v1"
    return [
        ToolValue(name="URL", value=wiring.openai),
        ToolValue(name="Key", value=KEY),
        ToolValue(name="URL from a container", value=in_container),
        ToolValue(name="Key from a container", value="what `roundhouse keys new open-webui` prints"),
        ToolValue(name="Environment", value=f"OPENAI_API_BASE_URL={wiring.openai}\nOPENAI_API_KEY={KEY}"),
    ]


_FROM_A_CONTAINER = (
    "From a container, use the URL and the key for that: programs in containers need a key. On Linux, also let the "
    "endpoint listen on all addresses (`roundhouse settings gateway.host 0.0.0.0`, `roundhouse down`, `roundhouse "
    "up`), and "
    "start the container with `--add-host=host.docker.internal:host-gateway`."
)
OPEN_WEBUI = ClientTool(
    id="open-webui",
    name="Open WebUI",
    route=ToolRoute.CHAT,
    programs=("open-webui",),
    steps=lambda _wiring: [
        "Open the Admin Panel, Settings, Connections.",
        "Add an OpenAI API connection with the URL and the key below.",
        "Or set both variables before its first start; later ones are read from its database.",
        _FROM_A_CONTAINER,
    ],
    values=_web_values,
    afterwards="Its list of models now includes Roundhouse's.",
)
