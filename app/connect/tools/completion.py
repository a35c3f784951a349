"""Tools that complete code and do nothing else: llama.vscode, llama.vim, Twinny, and the server Tabby.

https://github.com/ggml-org/llama.vscode, https://github.com/ggml-org/llama.vim, https://twinny.dev and
https://tabby.tabbyml.com/docs/administration/model. llama.vscode names the model of its chats also where it completes,
which is a vendor's where nobody set one.
"""

from pathlib import Path
from urllib.parse import urlsplit

from app.config.paths import Home
from app.connect.document_paths import DocumentChange
from app.connect.documents import JSON, TOML
from app.connect.tool import ClientTool, ToolRoute, WiringTarget
from app.connect.tools.by_hand import extension_folders
from app.core.capabilities import InfillStyle
from app.core.tools import ToolValue

_VIMRC = """let g:llama_config = {
    \\ 'endpoint_fim': '<URL>/infill',
    \\ 'model_fim': '<MODEL>',
    \\ }"""
_TWINNY_TEMPLATES = {
    InfillStyle.QWEN: "codeqwen",
    InfillStyle.STARCODER: "starcoder",
    InfillStyle.CODE_LLAMA: "codellama",
    InfillStyle.DEEPSEEK: "deepseek",
}


def _llama_vscode_changes(target: WiringTarget) -> list[DocumentChange]:
    values = {"endpoint": target.base, "ai_model": target.model, "api_key": target.key}
    return [DocumentChange((f"llama-vscode.{name}",), value) for name, value in values.items()]


LLAMA_VSCODE = ClientTool(
    id="llama-vscode",
    name="llama.vscode",
    route=ToolRoute.INFILL,
    traces=lambda home: extension_folders(home, "ggml-org.llama-vscode"),
    file=lambda home: home.support / "Code" / "User" / "settings.json",
    form=JSON,
    changes=_llama_vscode_changes,
    afterwards="Type in a file: completions appear at once. An environment chosen in llama.vscode itself counts before "
    "these settings.",
)


def _vim_values(target: WiringTarget) -> list[ToolValue]:
    lines = _VIMRC.replace("<URL>", target.base).replace("<MODEL>", target.model)
    return [ToolValue(name="URL", value=target.base), ToolValue(name="Lines", value=lines)]


def _vim_folders(home: Home) -> tuple[Path, ...]:
    folders = (home.folder / ".vim", home.config / "nvim", home.folder / ".local" / "share" / "nvim")
    places = ("plugged/llama.vim", "bundle/llama.vim", "lazy/llama.vim")
    return tuple(folder / place for folder in folders for place in places)


LLAMA_VIM = ClientTool(
    id="llama-vim",
    name="llama.vim",
    route=ToolRoute.INFILL,
    traces=_vim_folders,
    steps=lambda _wiring: [
        "Put the lines below into your vimrc, before the plug-in is loaded.",
        "In Neovim's init.lua, put the same between vim.cmd([[ and ]]).",
    ],
    values=_vim_values,
    afterwards="Start the editor again, and type in insert mode.",
)


def _twinny_values(target: WiringTarget) -> list[ToolValue]:
    place = urlsplit(target.base)
    style = target.completion.style if target.completion is not None else None
    values = {
        "URL": target.base,
        "Type": "FIM",
        "Provider": "ollama",
        "Protocol": place.scheme,
        "Hostname": place.hostname or "",
        "Port": str(place.port),
        "Path": "/api/generate",
        "Model": target.model,
        "FIM template": "automatic" if style is None else _TWINNY_TEMPLATES.get(style, "automatic"),
    }
    return [ToolValue(name=name, value=value) for name, value in values.items()]


TWINNY = ClientTool(
    id="twinny",
    name="Twinny",
    route=ToolRoute.GENERATE,
    traces=lambda home: extension_folders(home, "rjmacarthy.twinny"),
    steps=lambda _wiring: [
        "Open Twinny's side bar in VS Code and click the plug, Manage providers.",
        "Add a provider with the values below, and save.",
        "Choose it for FIM.",
    ],
    values=_twinny_values,
    afterwards="Type in a file.",
)


def _tabby_changes(target: WiringTarget) -> list[DocumentChange]:
    completion = {"kind": "openai/completion", "model_name": target.model}
    return [
        DocumentChange(
            ("model", "completion", "http"), {**completion, "api_endpoint": target.openai, "api_key": target.key}
        ),
    ]


TABBY = ClientTool(
    id="tabby",
    name="Tabby",
    route=ToolRoute.COMPLETIONS,
    programs=("tabby",),
    traces=lambda home: (home.folder / ".tabby",),
    file=lambda home: home.folder / ".tabby" / "config.toml",
    form=TOML,
    changes=_tabby_changes,
    afterwards="Start Tabby's server again, without --model. Its extensions for editors are connected to that server.",
)
