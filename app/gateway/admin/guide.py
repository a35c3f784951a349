"""The Guide over HTTP: a question, and what was looked up for it."""

from app.core.guide import AskGuide, GuideAnswer
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("POST", "/guide")
async def ask_guide(call: AdminCall[AskGuide, NoQuery]) -> GuideAnswer:
    """Answer a question about Roundhouse or this computer; one that the Guide does not know says so."""
    return await call.guide.answer(call.body.question)
