"""A window on the display, used by keys and mouse, and the service that it started."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from PIL import ImageGrab, ImageStat

from app.client.discovery import find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import default_paths
from app.config.programs import module_command
from app.core.chats import Chat, ChatSummary, Message, MessageStatus, Role
from app.core.models import ModelInfo
from tests.demo.real_window.accessible import AccessibleTree, Node
from tests.demo.real_window.display import run_beside
from tests.patience import PATIENCE_S

USUAL_SIZE = (1280, 800)
_PLACE = (20, 40)
_WHEEL_UP, _WHEEL_DOWN = 4, 5
_PATH = "(File name|Directory):.*"
"""The field in the dialogs for files."""
_PAUSE_S = 0.15
"""Between two looks; a look costs a quarter of a second itself."""
_SETTLE_S = 0.4
"""A picture is taken when animations have ended."""
_HEAR_S = 3.0
"""For what is told after a key."""


class NotSeen(AssertionError):
    """What should have come did not."""


class RealWindow:
    """One window, from its start to its end."""

    def __init__(self, tree: AccessibleTree, pictures: Path) -> None:
        self.tree, self.pictures = tree, pictures
        self.folder = Path.home()
        """What the person has; dialogs for files begin here."""
        self._id = ""
        self._stack = ExitStack()

    def open(self, *arguments: str, size: tuple[int, int] = USUAL_SIZE) -> None:
        """Start the program, and wait until its window and its service are there."""
        run_beside(self._stack, [*module_command("app.gui"), *arguments])
        self.wait_for(self._find_window, "the window")
        self._xdotool("windowsize", "--sync", self._id, *map(str, size))
        self._xdotool("windowmove", self._id, *map(str, _PLACE))
        self.client = self.find_service()
        self.find("Message", "text")
        self.find("Model: .*")

    def close(self) -> None:
        """End the window, and the service with it."""
        self._stack.close()
        self.wait_for(lambda: find_running_gateway(default_paths()) is None, "the end of the service")

    # Keys and mouse

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the keyboard is."""
        self._xdotool("key", "--delay", "60", *keys)

    def write(self, words: str) -> None:
        """Type words."""
        self._xdotool("type", "--delay", "12", words)

    def click(self, node: Node, button: int = 1) -> None:
        """Click into the middle of something; what lies below the window's edge is scrolled to."""
        self._scroll_to(node)
        self.click_at(*self.tree.area(node).middle, button=button)

    def _scroll_to(self, node: Node) -> None:
        """Turn the wheel until something is within the window."""
        top, height = self.tree.area(self.find("Roundhouse", "frame"))[1::2]
        x, y = self.tree.area(node).middle
        while not top < y < top + height:
            before = y
            self.click_at(x, top + height // 2, button=_WHEEL_DOWN if y > top else _WHEEL_UP)
            self.wait_for(partial(self._has_moved, node, before), "the page to scroll", within_s=_HEAR_S)
            x, y = self.tree.area(node).middle

    def _has_moved(self, node: Node, before: int) -> bool:
        return self.tree.area(node).middle[1] != before

    def click_at(self, x: int, y: int, button: int = 1) -> None:
        """Click at a place on the display."""
        self._xdotool("mousemove", str(x), str(y), "click", str(button))

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Drag what is at a place to another, in steps as a hand does."""
        self._xdotool("mousemove", str(start[0]), str(start[1]), "mousedown", "1")
        for step in range(1, 11):
            x, y = (round(a + (b - a) * step / 10) for a, b in zip(start, end, strict=True))
            self._xdotool("mousemove", str(x), str(y), "sleep", "0.05")
        self._xdotool("sleep", "0.3", "mouseup", "1")

    def press_button(self, name: str, role: str = "") -> None:
        """Click the control with a name."""
        self.click(self.find(name, role))

    def put_on_clipboard(self, path: Path, kind: str) -> None:
        """Copy a file's content, as another program does."""
        self._copy(path.read_bytes(), "-t", kind)

    def put_text_on_clipboard(self, text: str) -> None:
        """Copy a text, as another program does."""
        self._copy(text.encode())

    def read_clipboard(self) -> str:
        """Return the text that another program would paste."""
        argv = ["xclip", "-selection", "clipboard", "-o", "-t", "UTF8_STRING"]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    @contextmanager
    def beside(self, module: str, *arguments: str) -> Iterator[None]:
        """Run another program of ours with a window until the block ends."""
        with ExitStack() as stack:
            run_beside(stack, module_command(module, *arguments))
            yield

    # What shows

    def find(self, name: str, role: str = "") -> Node:
        """Wait for something that shows."""
        nodes: list[Node] = []

        def is_there() -> bool:
            node = self.tree.find(name, role)
            nodes[:] = [node] if node is not None else []
            return bool(nodes)

        self.wait_for(is_there, f"{role or 'anything'} named {name!r}")
        return nodes[0]

    def shows(self, name: str, role: str = "") -> bool:
        """Return whether something shows now."""
        return self.tree.find(name, role) is not None

    def wait_gone(self, name: str, role: str = "") -> None:
        """Wait until nothing with that name shows."""
        self.wait_for(lambda: not self.shows(name, role), f"the end of {name!r}")

    def wait_for(self, condition: Callable[[], object], what: str, within_s: float = 0) -> None:
        """Wait for something to come true."""
        end = time.monotonic() + (within_s or PATIENCE_S)
        while not condition():
            if time.monotonic() > end:
                raise NotSeen(what)
            time.sleep(_PAUSE_S)

    def take_picture(self, name: str) -> None:
        """Keep what the display shows."""
        time.sleep(_SETTLE_S)
        x, y, width, height = self.tree.area(self.find("Roundhouse", "frame"))
        ImageGrab.grab(bbox=(x, y, x + width, y + height), xdisplay="").save(self.pictures / f"{name}.png")

    def brightness(self, name: str) -> float:
        """Return how bright something is drawn on the average, up to 255."""
        x, y, width, height = self.tree.area(self.find(name))
        picture = ImageGrab.grab(bbox=(x, y, x + width, y + height), xdisplay="").convert("L")
        return float(ImageStat.Stat(picture).mean[0])

    def list_rows(self) -> list[str]:
        """Return what the rows of the list of chats say, without the headings."""
        return [node.name for node in self.tree.walk() if node.role == "list item"][1:]

    def focus_list(self) -> None:
        """Bring the keyboard into the list of chats, from the search above it."""
        self.press_button("Search chats", "text")
        self.press("Tab")

    # The composer and the conversation

    def focus_composer(self) -> None:
        """Click into the field for the question."""
        self.press_button("Message", "text")

    def composer_text(self) -> str:
        """Return what is typed."""
        return self.tree.text(self.find("Message", "text"))

    def new_chat(self, model: str = "") -> None:
        """Begin a chat, with the model that is named."""
        self.press("Escape", "ctrl+1", "ctrl+n")
        self.focus_composer()
        self.press("ctrl+a", "BackSpace")
        if model:
            self.choose_model(model)

    def choose_model(self, title: str) -> None:
        """Choose the model in the header's list."""
        if self.shows(f"Model: {title}.*"):
            return
        self.press_button("Model: .*")
        self.press_button(f"{title}.*", "push button")
        self.find(f"Model: {title}.*")

    def ask(self, question: str) -> Message:
        """Ask, and return the answer when it is complete."""
        self.focus_composer()
        self.write(question)
        return self.await_answer(lambda: self.press("Return"))

    def await_answer(self, act: Callable[[], object]) -> Message:
        """Do something that makes a model answer, and return the answer when it is complete."""
        earlier = {message.id for message in self.answers()}
        act()
        self.wait_for(lambda: any(message.id not in earlier for message in self.answers()), "an answer")
        return next(message for message in self.answers() if message.id not in earlier)

    def choose_message(self, *, back: int = 1) -> Node:
        """Choose a message with Alt Up, the last one first; return the conversation."""
        conversation = self.find("Conversation")
        self.focus_composer()  # without the keyboard nothing in the conversation is chosen
        self.click_at(*self._margin_of(conversation))
        for _ in range(back):
            self.press_and_hear("alt+Up", conversation)
        return conversation

    def choose_action(self, action: str, *, back: int = 1) -> None:
        """Choose a message and with Right an action, by what is told to screen readers, and do it."""
        if action not in self.action_names(back=back, until=action):
            raise NotSeen(f"the action {action!r}")
        self.press("Return")

    def action_names(self, *, back: int = 1, until: str = "") -> list[str]:
        """Return what can be done with a message, up to a name."""
        self.choose_message(back=back)
        return self.hear_actions(until=until)

    def hear_actions(self, *, until: str = "") -> list[str]:
        """Return the actions of the message that is chosen, as Right tells them, up to a name."""
        conversation = self.find("Conversation")
        names: list[str] = []
        while until not in names:
            name = self.press_and_hear("Right", conversation)
            if name in names:  # it begins anew
                break
            names.append(name)
        return names

    def press_and_hear(self, key: str, node: Node) -> str:
        """Press a key, and return what is told about a node then."""
        before = self.tree.description(node)
        self.press(key)
        with suppress(NotSeen):  # where there is one action only, Right says the same again
            self.wait_for(lambda: self.tree.description(node) != before, "other words", within_s=_HEAR_S)
        return self.tree.description(node)

    def choose_entry(self, button: str, entry: str) -> None:
        """Open a button's menu, and choose an entry."""
        self.press_button(button)
        self.choose_in_menu(entry)

    def choose_in_menu(self, *entries: str) -> None:
        """Go down a menu that is open to an entry, as it is told to screen readers, and into the menus below it."""
        for depth, entry in enumerate(entries):
            if depth:
                self.press("Right")
            names: list[str] = []
            while not (names and re.fullmatch(entry, names[-1])):
                self.tree.forget_focus()
                self.press("Down")
                names.append(self.tree.hear_focus(_HEAR_S))
                if names.count(names[-1]) > 1:
                    raise NotSeen(f"the entry {entry!r} among {names}")
        self.press("Return")

    def choose_command(self, words: str) -> None:
        """Find a command in the palette, and do it."""
        self.press("ctrl+k")
        self.write(words)
        self.find(f"{words}.*", "list item")
        self.press("Return")

    def enter_path(self, path: Path | Sequence[Path]) -> None:
        """Paste a path, or several, into the dialog for files that is open."""
        paths = [path] if isinstance(path, Path) else list(path)
        self.find(_PATH, "text")
        self.put_text_on_clipboard(" ".join(f'"{item}"' for item in paths) if len(paths) > 1 else str(paths[0]))
        self.press("ctrl+a", "ctrl+v", "Return")
        self.wait_gone(_PATH, "text")

    # What the service has

    def models(self) -> list[ModelInfo]:
        """Return the models that there are."""
        return self.client.get("/models", list[ModelInfo])

    def chats(self) -> list[Chat]:
        """Return the chats with their messages, newest first."""
        return [self.client.get(f"/chats/{chat.id}", Chat) for chat in self.client.get("/chats", list[ChatSummary])]

    def chat(self) -> Chat:
        """Return the chat in which something happened last."""
        newest = max(self.client.get("/chats", list[ChatSummary]), key=lambda chat: chat.updated_at)
        return self.client.get(f"/chats/{newest.id}", Chat)

    def answers(self) -> list[Message]:
        """Return the complete answers of all chats."""
        return [
            message
            for chat in self.chats()
            for message in chat.messages
            if message.role is Role.ASSISTANT and message.status is MessageStatus.COMPLETE
        ]

    def _margin_of(self, node: Node) -> tuple[int, int]:
        """Return a place at the edge of the conversation where nothing can be pressed."""
        area = self.tree.area(node)
        return area.x + 4, area.y + area.height // 2

    def _find_window(self) -> bool:
        try:
            self._id = self._xdotool("search", "--onlyvisible", "--name", "^Roundhouse$").split()[0]
        except (subprocess.CalledProcessError, IndexError):  # nothing is on the display yet
            return False
        return True

    def find_service(self) -> GatewayClient:
        """Wait for the service, and return a way to ask it."""
        self.wait_for(lambda: find_running_gateway(default_paths()) is not None, "the service")
        service = find_running_gateway(default_paths())
        assert service is not None
        return GatewayClient(service, timeout_s=PATIENCE_S)

    def _copy(self, content: bytes, *options: str) -> None:
        argv = ["xclip", "-selection", "clipboard", *options]
        subprocess.run(argv, input=content, check=True, timeout=PATIENCE_S)

    def _xdotool(self, *arguments: str) -> str:
        argv = ["xdotool", *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
