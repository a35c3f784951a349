"""What is remembered of requests: by the inspector, in traces, and for clients that continue a response."""

from app.config import checks
from app.config.setting import Setting, SettingKind

REQUESTS_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="inspector.requests",
        title="Requests remembered",
        help="How many of the latest requests can be inspected. They are kept in memory only.",
        kind=SettingKind.INT,
        default=200,
        minimum=10,
        maximum=10_000,
    ),
    Setting(
        name="inspector.bodies",
        title="Keep request contents",
        help="Keep the first 32 KiB of each request and answer in memory, to be read on the Server page. Never logged.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="traces.endpoint",
        title="Send traces to",
        help="Address of an OpenTelemetry collector (OTLP over HTTP) that is told of each request, such as "
        "http://127.0.0.1:4318. Empty: none.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.collector_or_nothing,
    ),
    Setting(
        name="traces.contents",
        title="Prompts and answers in traces",
        help="The first 8 KiB of each request and answer go to the collector too. Off: figures and names only.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="responses.mcp_servers",
        title="Tools for programs",
        help="Names of MCP servers whose tools programs may have models call (`mcp` tools of /v1/responses). A program "
        "approves calls of tools that you have neither allowed nor blocked. Empty: none.",
        kind=SettingKind.LIST,
        default=[],
        separator=",",
    ),
    Setting(
        name="responses.kept",
        title="Responses kept",
        help="How many answers of the Responses API are kept for clients that continue one by its id; 0 for none.",
        kind=SettingKind.INT,
        default=1000,
        minimum=0,
        maximum=100_000,
    ),
    Setting(
        name="responses.days",
        title="Keep responses for",
        help="Responses that have not been continued for this long are deleted.",
        kind=SettingKind.INT,
        default=30,
        minimum=1,
        maximum=3650,
        unit="days",
    ),
)
