"""Coding agents over HTTP. With a key sessions can be read and stopped: what an agent does is a person's to say."""

from collections.abc import AsyncGenerator

from app.core.agents import (
    AgentEvent,
    AgentList,
    AgentPromptText,
    AgentSession,
    AgentTranscript,
    DecideAgentPermission,
    NewAgentSession,
)
from app.core.errors import BadRequest, Forbidden
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/agents")
async def list_agents(call: AdminCall[None, NoQuery]) -> AgentList:
    """List the coding agents that can be hosted."""
    return await call.agents.list_agents()


@routes.add("GET", "/agents/sessions")
async def list_sessions(call: AdminCall[None, NoQuery]) -> list[AgentSession]:
    """List the sessions with coding agents, the newest first."""
    return await call.agents.list_sessions()


@routes.add("POST", "/agents/sessions")
async def start_session(call: AdminCall[NewAgentSession, NoQuery]) -> AgentSession:
    """Begin a session: start a coding agent in a folder."""
    _require_person(call)
    return await call.agents.start_session(call.body)


@routes.add("GET", "/agents/sessions/{session}")
async def read_transcript(call: AdminCall[None, NoQuery]) -> AgentTranscript:
    """Return a session with all that happened in it."""
    return await call.agents.read_transcript(call.names["session"])


@routes.add("GET", "/agents/sessions/{session}/events")
async def follow_session(call: AdminCall[None, NoQuery]) -> AsyncGenerator[AgentEvent, None]:
    """Tell all that happened in a session, then what happens, until its agent has ended."""
    return (await call.agents.find_session(call.names["session"])).follow_events()


@routes.add("POST", "/agents/sessions/{session}/prompts", status=202)
async def prompt_agent(call: AdminCall[AgentPromptText, NoQuery]) -> AgentSession:
    """Ask the agent of a session."""
    _require_person(call)
    session = await call.agents.find_session(call.names["session"])
    session.send_prompt(call.body.text)
    return session.about


@routes.add("POST", "/agents/sessions/{session}/cancel")
async def cancel_prompt(call: AdminCall[None, NoQuery]) -> AgentSession:
    """Have the agent stop what it does."""
    session = await call.agents.find_session(call.names["session"])
    session.cancel_turn()
    return session.about


@routes.add("POST", "/agents/sessions/{session}/permissions/{entry}")
async def decide_permission(call: AdminCall[DecideAgentPermission, NoQuery]) -> AgentSession:
    """Answer a request for permission."""
    _require_person(call)
    session = await call.agents.find_session(call.names["session"])
    try:
        entry = int(call.names["entry"])
    except ValueError:
        raise BadRequest("An entry is known by its number.", code="invalid_value") from None
    session.decide_permission(entry, call.body.option)
    return session.about


@routes.add("POST", "/agents/sessions/{session}/resume")
async def resume_session(call: AdminCall[None, NoQuery]) -> AgentSession:
    """Start the agent of a session that is over, and have it go on with it."""
    _require_person(call)
    return await call.agents.resume_session(call.names["session"])


@routes.add("POST", "/agents/sessions/{session}/end")
async def end_session(call: AdminCall[None, NoQuery]) -> AgentSession:
    """End the agent of a session; what happened stays to be read."""
    session = await call.agents.find_session(call.names["session"])
    await session.end_agent()
    return session.about


@routes.add("DELETE", "/agents/sessions/{session}")
async def remove_session(call: AdminCall[None, NoQuery]) -> None:
    """End a session and forget it."""
    _require_person(call)
    await call.agents.remove_session(call.names["session"])


def _require_person(call: AdminCall[object, NoQuery]) -> None:
    if call.key_name:
        raise Forbidden(
            "With a key, coding agents can be watched and stopped, and no more.",
            hint="Use the window, or `roundhouse agents` on this computer.",
            code="agents_need_person",
        )
