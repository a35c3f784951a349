"""Tools whose settings no file holds that another program may edit: what a person does, with values to copy.

Roo Code keeps theirs in VS Code's database and its store of secrets; JetBrains AI Assistant and Android Studio in the
IDE's; Open WebUI, AnythingLLM, n8n and Home Assistant in databases of their own; Obsidian in each vault.
"""

from pathlib import Path
from urllib.parse import urlsplit

from app.config.paths import Home
from app.connect.tool import KEY, ClientTool, ToolRoute, WiringTarget
from app.core.tools import ToolValue


def _ollama_values(target: WiringTarget) -> list[ToolValue]:
    return [ToolValue(name="URL", value=target.base), ToolValue(name="Model", value=target.model)]


def _limited_values(target: WiringTarget) -> list[ToolValue]:
    limits = {"Context": target.context, "Longest answer": target.models[0].answer}
    return [*_endpoint_values(target), *(ToolValue(name=name, value=str(limit)) for name, limit in limits.items())]


def _endpoint_values(target: WiringTarget) -> list[ToolValue]:
    return [
        ToolValue(name="Base URL", value=target.openai),
        ToolValue(name="API key", value=KEY),
        ToolValue(name="Model", value=target.model),
    ]


def _jetbrains_values(target: WiringTarget) -> list[ToolValue]:
    completion = [] if target.completion is None else [ToolValue(name="Completion model", value=target.completion.name)]
    return [*_endpoint_values(target), *completion]


def extension_folders(home: Home, name: str) -> tuple[Path, ...]:
    """Return where an extension of VS Code and its kin lies once it is installed."""
    folders = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor")
    return tuple(home.folder / folder / "extensions" / f"{name}-*" for folder in folders)


ROO_CODE = ClientTool(
    id="roo-code",
    name="Roo Code",
    route=ToolRoute.CHAT,
    traces=lambda home: extension_folders(home, "rooveterinaryinc.roo-cline"),
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
        "Open Settings, Tools, AI Assistant, Providers & API keys.",
        "Choose OpenAI-compatible among the third-party providers.",
        "Fill in the base URL and test the connection.",
        "Under Model Assignment, give the model to the core features, and the completion model to code completion.",
    ],
    values=_jetbrains_values,
    completes=ToolRoute.COMPLETIONS,
    afterwards="The model is in the list of the AI chat.",
)


def _in_container(base: str) -> str:
    return f"http://host.docker.internal:{urlsplit(base).port}"


def _web_values(target: WiringTarget) -> list[ToolValue]:
    variables = {"OPENAI_API_BASE_URL": target.openai, "OPENAI_API_KEY": KEY, "OLLAMA_BASE_URL": target.base}
    return [
        ToolValue(name="URL", value=target.openai),
        ToolValue(name="Key", value=KEY),
        ToolValue(name="Ollama URL", value=target.base),
        ToolValue(name="URL from a container", value=f"{_in_container(target.base)}/v1"),
        ToolValue(name="Key from a container", value="what `roundhouse keys new open-webui` prints"),
        ToolValue(name="Environment", value="\n".join(f"{name}={value}" for name, value in variables.items())),
    ]


def _n8n_values(target: WiringTarget) -> list[ToolValue]:
    return [*_endpoint_values(target), ToolValue(name="From a container", value=f"{_in_container(target.base)}/v1")]


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
        (
            "Or add an Ollama API connection with the Ollama URL, which also unloads models and shows their speed. "
            "With both, each model is listed twice."
        ),
        "Or set the variables before its first start; later ones are read from its database.",
        _FROM_A_CONTAINER,
    ],
    values=_web_values,
    afterwards="Its list of models now includes Roundhouse's.",
    tried="0.12.4",
)
ANDROID_STUDIO = ClientTool(
    id="android-studio",
    name="Android Studio",
    route=ToolRoute.CHAT,
    programs=("studio",),
    traces=lambda home: (home.support / "Google" / "AndroidStudio*",),
    steps=lambda _wiring: [
        "Open Settings, Tools, AI, Model Providers.",
        "Add a local provider with the URL below.",
        "Refresh its models and tick those to use.",
    ],
    values=_endpoint_values,
    afterwards="The model is in the list of the Gemini window.",
)
ANYTHING_LLM = ClientTool(
    id="anythingllm",
    name="AnythingLLM",
    route=ToolRoute.CHAT,
    traces=lambda home: (home.support / "anythingllm-desktop",),
    steps=lambda _wiring: [
        "Open Settings, AI Providers, LLM.",
        "Choose Generic OpenAI.",
        "Fill in the values below and save.",
    ],
    values=_limited_values,
    afterwards="Workspaces that use the system's model use it at once.",
)
N8N = ClientTool(
    id="n8n",
    name="n8n",
    route=ToolRoute.CHAT,
    programs=("n8n",),
    traces=lambda home: (home.folder / ".n8n",),
    steps=lambda _wiring: [
        "Add a credential of the type OpenAI with the base URL and the key below.",
        "Use it in an OpenAI Chat Model node, and write the model's name there.",
        _FROM_A_CONTAINER,
    ],
    values=_n8n_values,
    afterwards="The next run of the workflow uses it.",
)
HOME_ASSISTANT = ClientTool(
    id="home-assistant",
    name="Home Assistant",
    route=ToolRoute.OLLAMA,
    programs=("hass",),
    steps=lambda _wiring: [
        "Open Settings, Devices & services, and add the integration Ollama.",
        (
            "Fill in the URL below. From another computer or a container, use this computer's address instead, let the "
            "endpoint listen on all addresses (`roundhouse settings gateway.host 0.0.0.0`), and give it a key "
            "(`roundhouse keys new home-assistant`)."
        ),
        "Add a conversation agent with the model below, and let it control Home Assistant if the model calls tools.",
    ],
    values=_ollama_values,
    afterwards="Choose the agent in Settings, Voice assistants.",
)
OBSIDIAN = ClientTool(
    id="obsidian",
    name="Obsidian plug-ins",
    route=ToolRoute.CHAT,
    programs=("obsidian",),
    traces=lambda home: (home.support / "obsidian",),
    steps=lambda _wiring: [
        "Open the plug-in's settings in Obsidian.",
        (
            "Add a custom model with the provider OpenAI Format (Copilot), Custom (OpenAI format) (Smart Connections) "
            "or Custom (Text Generator)."
        ),
        "Fill in the values below. CORS need not be worked around: the endpoint takes requests from Obsidian.",
    ],
    values=_endpoint_values,
    afterwards="The model is in the plug-in's list.",
)
