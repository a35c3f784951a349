"""How the window looks, and what happens when it opens and closes."""

from app.config.setting import Setting, SettingKind

WINDOW_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="window.theme",
        title="Appearance",
        help="Follow the system, or always use one.",
        kind=SettingKind.CHOICE,
        default="system",
        choices=("system", "light", "dark"),
    ),
    Setting(
        name="window.scale",
        title="Size of text and controls",
        help="Ctrl + and Ctrl - change it too.",
        kind=SettingKind.INT,
        default=100,
        minimum=80,
        maximum=200,
        unit="%",
    ),
    Setting(
        name="window.reduce_motion",
        title="Reduce motion",
        help="Show changes at once instead of fading.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="window.at_login",
        title="Open when I log in",
        help="The window opens automatically after each log-in. No model is loaded until you use one.",
        kind=SettingKind.BOOL,
        default=False,
    ),
    Setting(
        name="window.tray",
        title="Show an icon in the system tray",
        help="Shows running models and their memory, pauses them, and reopens a closed window, on systems with a tray.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="window.ask_on_close",
        title="Ask when the window closes",
        help="Ask whether the service should keep running. Off: the next setting decides.",
        kind=SettingKind.BOOL,
        default=True,
    ),
    Setting(
        name="window.keep_serving",
        title="Keep serving when the window closes",
        help="Editors and other programs can go on using the endpoint. Quitting always stops it.",
        kind=SettingKind.BOOL,
        default=False,
    ),
)
