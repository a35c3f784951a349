"""Profiles over HTTP: kept and removed, planned, made active, and taken back."""

import time

from app.core.profiles import Profile, ProfileList, ProfilePlan, SaveProfile, UseProfile
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()
_NEW = "new"


@routes.add("GET", "/profiles")
async def list_profiles(call: AdminCall[None, NoQuery]) -> ProfileList:
    """List the profiles by name, and say which is active and when the next switch is."""
    return call.profiles.describe(time.time())


@routes.add("POST", "/profiles")
async def save_profile(call: AdminCall[SaveProfile, NoQuery]) -> Profile:
    """Keep a profile, in place of the one that has its name or that it replaces."""
    return await call.profiles.save_profile(call.body)


@routes.add("GET", "/profiles/{name}")
async def read_profile(call: AdminCall[None, NoQuery]) -> Profile:
    """Show one profile."""
    return call.services.profiles.find_profile(call.names["name"])


@routes.add("DELETE", "/profiles/{name}")
async def remove_profile(call: AdminCall[None, NoQuery]) -> None:
    """Forget a profile; what is loaded stays."""
    call.profiles.remove_profile(call.names["name"])


@routes.add("GET", "/profile/draft")
async def draft_profile(call: AdminCall[None, NoQuery]) -> Profile:
    """Show what is loaded and counts now as a profile, without keeping it."""
    return call.profiles.draft_from_now(_NEW)


@routes.add("POST", "/profile/plan")
async def plan_profile(call: AdminCall[UseProfile, NoQuery]) -> ProfilePlan:
    """Say what switching to a profile would do; nothing is changed."""
    return await call.profiles.plan_switch_to(call.body.name)


@routes.add("POST", "/profile/use")
async def use_profile(call: AdminCall[UseProfile, NoQuery]) -> ProfilePlan:
    """Make a profile the active one, or with an empty name none.

    Models come and go in the background; no answer is broken off.
    """
    return await call.profiles.switch_to(call.body.name)


@routes.add("POST", "/profile/undo")
async def undo_profile(call: AdminCall[None, NoQuery]) -> ProfilePlan:
    """Have it again as it was before the last switch."""
    return await call.profiles.undo_switch()
