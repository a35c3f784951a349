"""What is fetched from elsewhere: nothing when offline; the catalogue, updates and downloads otherwise."""

from app.config import checks
from app.config.setting import Setting, SettingKind

NETWORK_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="network.offline",
        title="Stay offline",
        help="Connect to no other computer: no downloads, no remote endpoints. Everything installed keeps working.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="catalogue.url",
        title="Catalogue of models",
        help="Where to download a newer list of recommended models, with its signature next to it as .sig.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.https_or_nothing,
    ),
    Setting(
        name="catalogue.least_speed",
        title="Slowest recommended model",
        help="Tokens per second below which a model is not recommended for chat, however good its answers are.",
        kind=SettingKind.INT,
        default=10,  # faster than people read, about five to eight
        minimum=1,
        maximum=1000,
    ),
    Setting(
        name="catalogue.key",
        title="Key of the catalogue",
        help="Public Ed25519 key in base64. A catalogue not signed by it is refused.",
        kind=SettingKind.TEXT,
        default="",
        check=checks.key_or_nothing,
    ),
    Setting(
        name="updates.weekly",
        title="Check for updates every week",
        help="Check once a week for a newer version of Roundhouse. It is never installed without asking you.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="updates.channel",
        title="Update channel",
        help="Stable versions, or versions that are still being tested.",
        kind=SettingKind.CHOICE,
        default="stable",
        choices=("stable", "beta"),
    ),
    Setting(
        name="updates.url",
        title="Address of the updates",
        help="The folder that holds stable.json and stable.json.sig; or a mirror of your own.",
        kind=SettingKind.TEXT,
        default="https://roundhouse.invalid/updates",
        check=checks.https_only,
    ),
    Setting(
        name="downloads.at_once",
        title="Downloads at once",
        help="How many models download at the same time; the others wait their turn.",
        kind=SettingKind.INT,
        default=1,
        minimum=1,
        maximum=8,
    ),
    Setting(
        name="downloads.limit_mb_s",
        title="Download speed limit",
        help="For all downloads together; 0 means no limit.",
        kind=SettingKind.INT,
        default=0,
        minimum=0,
        maximum=100_000,
        unit="MB/s",
    ),
    Setting(
        name="downloads.from_machines",
        title="Download from your other computers first",
        help="A file that a paired computer has and gives out comes from there; the hub is where the rest comes from.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="downloads.xet",
        title="Hugging Face's Xet storage",
        help="Downloads large files from Xet where the hub offers it, while only one download runs and there is no "
        "speed limit. Off: everything over plain HTTP.",
        kind=SettingKind.CHOICE,
        default="auto",
        choices=("auto", "off"),
    ),
)
