"""A scripted coding agent in the lines of the Agent Client Protocol: the first word of a prompt is what it does.

A file called `fault` in its folder says how it fails to start. It is copied to where it is run, and imports nothing but
the standard library: the protocol's SDK takes half a second, and the gateway has it on its own side.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "all", "name": "Allow all edits", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
PROTOCOL_VERSION = 1
SESSION = "session-1"
INTERNAL, SIGN_IN, NO_METHOD = -32603, -32000, -32601


class RequestError(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


class Wire:
    """JSON-RPC in lines: requests in both directions, told apart by their `method`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._count = 0

    def write(self, **message: object) -> None:
        with self._lock:
            sys.stdout.write(f"{json.dumps({'jsonrpc': '2.0', **message})}\n")
            sys.stdout.flush()

    def request(self, method: str, **params: object) -> dict[str, Any]:
        with self._lock:
            self._count += 1
            number = self._count
        answers = self._answers[number] = queue.SimpleQueue()
        self.write(id=number, method=method, params={"sessionId": SESSION, **params})
        answer = answers.get()
        if "error" in answer:
            raise RequestError(**answer["error"])
        return answer["result"] or {}

    def serve(self, handle: Callable[[str, dict[str, Any]], object]) -> None:
        """Handle requests until the client leaves, each on a thread, since a handler may ask the client back."""
        for line in sys.stdin:
            message = json.loads(line)
            if "method" in message:
                threading.Thread(target=self._answer, args=(handle, message), daemon=True).start()
            else:
                self._answers.pop(message["id"]).put(message)

    def _answer(self, handle: Callable[[str, dict[str, Any]], object], message: dict[str, Any]) -> None:
        try:
            reply = {"result": handle(message["method"], message.get("params") or {})}
        except RequestError as error:
            reply = {"error": error.error}
        if "id" in message:
            self.write(id=message["id"], **reply)


class ScriptedAgent:
    def __init__(self, wire: Wire, fault: str) -> None:
        self._wire, self._fault = wire, fault
        self._stop = threading.Event()

    def handle(self, method: str, params: dict[str, Any]) -> object:
        handler = getattr(self, f"handle_{method.replace('/', '_')}", None)
        if handler is None:
            raise RequestError(NO_METHOD, "Method not found")
        return handler(params)

    def handle_initialize(self, _params: dict[str, Any]) -> object:
        if self._fault == "mute":
            time.sleep(3600)
        return {
            "protocolVersion": 99 if self._fault == "version" else PROTOCOL_VERSION,
            "agentCapabilities": {"loadSession": self._fault != "no-load"},
            "agentInfo": {"name": "scripted", "title": "Scripted", "version": "1.0"},
        }

    def handle_session_new(self, _params: dict[str, Any]) -> object:
        if self._fault == "sign-in":
            raise RequestError(SIGN_IN, "Authentication required")
        return {"sessionId": SESSION}

    def handle_session_load(self, params: dict[str, Any]) -> object:
        self._say("told again")
        Path("loaded").write_text(params["sessionId"], encoding="utf-8")
        return {}

    def handle_session_cancel(self, _params: dict[str, Any]) -> None:
        self._stop.set()

    def handle_session_prompt(self, params: dict[str, Any]) -> object:
        self._stop.clear()
        action, _, rest = params["prompt"][0]["text"].partition(" ")
        return {"stopReason": getattr(self, f"do_{action}")(rest) or "end_turn"}

    def _update(self, update: str, /, **fields: object) -> None:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": update, **fields}}
        self._wire.write(method="session/update", params=params)

    def _say(self, text: str, kind: str = "agent_message_chunk") -> None:
        self._update(kind, content=_text(text))

    def do_say(self, text: str) -> None:
        self._say("Hm. ", "agent_thought_chunk")
        steps = [("Look", "completed"), ("Answer", "in_progress")]
        entries = [{"content": step, "priority": "medium", "status": status} for step, status in steps]
        self._update("plan", entries=entries)
        for word in text.split(" "):
            self._say(f"{word} ")

    def do_edit(self, rest: str) -> None:
        path, _, text = rest.partition(" ")
        call: dict[str, object] = {
            "toolCallId": "call-1",
            "kind": "edit",
            "content": [{"type": "diff", "path": path, "newText": text, "oldText": "old"}],
        }
        self._update("tool_call", **call, title=f"Edit {path}", locations=[{"path": path}])
        call |= {"title": path, "rawInput": {"path": path}}
        answer = self._wire.request("session/request_permission", toolCall=call, options=OPTIONS)
        outcome = answer["outcome"]
        if outcome["outcome"] != "selected" or outcome["optionId"] == "no":
            self._finish("failed", "Not allowed.")
            return
        self._wire.request("fs/write_text_file", path=path, content=text)
        self._finish("completed", "Written.")

    def _finish(self, status: str, text: str) -> None:
        content = [{"type": "content", "content": _text(text)}]
        self._update("tool_call_update", toolCallId="call-1", status=status, content=content)

    def do_write(self, rest: str) -> None:
        path, _, text = rest.partition(" ")
        self._attempt("fs/write_text_file", path=path, content=text)

    def do_read(self, path: str) -> None:
        self._attempt("fs/read_text_file", path=path)

    def _attempt(self, method: str, **params: object) -> None:
        try:
            result = self._wire.request(method, **params)
        except RequestError as error:
            self._say(f"refused: {error}")
        else:
            self._say(f"done: {result.get('content', '')}")

    def do_steal(self, path: str) -> None:
        try:
            self._say(f"stolen: {Path(path).read_text(encoding='utf-8')}")
        except OSError as error:
            self._say(f"denied: {type(error).__name__}")

    def do_run(self, command: str) -> None:
        try:
            terminal = self._wire.request("terminal/create", command=command)["terminalId"]
        except RequestError as error:
            self._say(f"refused: {error}")
            return
        exit_result = self._wire.request("terminal/wait_for_exit", terminalId=terminal)
        output_result = self._wire.request("terminal/output", terminalId=terminal)
        self._say(f"exit {exit_result.get('exitCode')}: {output_result['output'].strip()}")

    def do_facts(self, _rest: str) -> None:
        key = next((part for part in os.environ.get("OPENCODE_CONFIG_CONTENT", "").split('"') if part[:3] == "rh-"), "")
        in_argv = bool(key) and key in " ".join(sys.argv)
        self._say(f"{key} {in_argv} {os.environ['HOME']} {Path.cwd()}")

    def do_kinds(self, _rest: str) -> None:
        options = [{"optionId": "x", "name": "Hand over everything", "kind": "allow_forever"}]
        self._attempt("session/request_permission", toolCall={"toolCallId": "c", "title": "Odd"}, options=options)

    def do_leave(self, _rest: str) -> None:
        self._update("tool_call", toolCallId="call-1", title="Long work")

    def do_wait(self, _rest: str) -> str:
        self._say("waiting")
        self._stop.wait()
        return "cancelled"

    def do_hang(self, _rest: str) -> None:
        self._say("hanging")
        threading.Event().wait()

    def do_fail(self, _rest: str) -> None:
        raise RequestError(INTERNAL, "Internal error", {"details": "The model is on holiday."})

    def do_die(self, _rest: str) -> None:
        self._say("last words")
        sys.stderr.write("I have no more tokens\n")
        sys.stderr.flush()
        os._exit(3)

    def do_flood(self, _rest: str) -> None:
        while True:
            self._say("flood " * 10_000)

    def do_garbage(self, count: str) -> None:
        for number in range(int(count)):
            sys.stdout.write(f"progress {number} {{\n")
        sys.stdout.write('[1, 2]\n"text"\n5\n')
        sys.stdout.flush()
        self._say("clean again")

    def do_line(self, _rest: str) -> None:
        while True:
            sys.stdout.write("x" * 1_000_000)
            sys.stdout.flush()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def main() -> None:
    place = Path("fault")
    fault = place.read_text(encoding="utf-8").strip() if place.exists() else ""
    if fault == "crash":
        sys.stderr.write("I have no licence file\n")
        sys.exit(4)
    wire = Wire()
    wire.serve(ScriptedAgent(wire, fault).handle)


if __name__ == "__main__":
    main()
