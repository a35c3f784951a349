"""The description of a tool that draws pictures. The gateway carries its calls out: this process reaches nothing."""

from app.core.pictures import DrawPicture
from app.mcp_tools.toolbox import BuiltinTool, ToolMistake


def draw_picture(request: DrawPicture) -> str:
    """Refuse: a call that comes here has no answer of a chat, in which the picture could be shown."""
    del request
    raise ToolMistake("Pictures are drawn in chats of Roundhouse only, where they can be shown.")


TOOLS = (
    BuiltinTool(
        name="draw_picture",
        description=(
            "Have an image model draw a picture from a description, and show it to the person in your answer. "
            "Describe what is to be seen, and the style. You do not see the picture yourself."
        ),
        arguments=DrawPicture,
        run=draw_picture,
        is_read_only=False,
    ),
)
