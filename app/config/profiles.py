"""The profiles a person keeps, in a file, and which of them is active, in another: that is no setting of a person's.

The rest of the gateway asks for `effective_profile`: the one that a request named in its head, else the active one.
"""

import contextlib
import logging
from contextvars import ContextVar
from pathlib import Path

import msgspec

from app.config.private_files import save_private
from app.config.tables_file import TablesFile
from app.core.errors import BadRequest, Conflict, NotFound, StorageFault, quote_value
from app.core.profiles import MOST_PROFILES, NO_PROFILE, OpenHours, Profile, ProfileCause, SaveProfile, check_profile

log = logging.getLogger(__name__)

REQUEST_PROFILE: ContextVar[str | None] = ContextVar("request profile", default=None)
"""The profile a request is answered with, by name; empty: none at all; None: the active one."""


class ProfileState(msgspec.Struct, frozen=True, kw_only=True):
    """Which profile is active, who made it so, and whose hours were seen last."""

    active: str = ""
    cause: ProfileCause = ProfileCause.PERSON
    before: str = ""
    """What was active before hours began, and is again when they end."""
    hours: OpenHours | None = None


class ProfileStore:
    """One owner: the gateway. Without files all is kept in memory."""

    def __init__(self, file: Path | None = None, state_file: Path | None = None) -> None:
        self._tables = TablesFile(Profile, file, what="The contents")
        self.problems = self._tables.problems
        # Whoever edits the file may rename a table and leave the name in it.
        self._tables.values = {
            name: msgspec.structs.replace(profile, name=name) for name, profile in self._tables.values.items()
        }
        self._state_file = state_file
        self.state = ProfileState() if state_file is None else _read_state(state_file)

    def list_profiles(self) -> list[Profile]:
        """Return the profiles by name."""
        return [profile for _, profile in sorted(self._tables.values.items())]

    def find_profile(self, name: str) -> Profile:
        """Return a profile. Raises NotFound."""
        profile = self._tables.values.get(name)
        if profile is None:
            raise NotFound(
                f"There is no profile called {quote_value(name)}.",
                hint="`roundhouse profiles list` lists them.",
                code="profile_not_found",
            )
        return profile

    def active_profile(self) -> Profile:
        """Return the active profile; `NO_PROFILE` where none is, or it is gone."""
        return self._tables.values.get(self.state.active, NO_PROFILE)

    @property
    def is_requested(self) -> bool:
        """Whether the request that is being answered named its profile."""
        return REQUEST_PROFILE.get() is not None

    def effective_profile(self) -> Profile:
        """Return the profile of the request that is being answered, else the active one. Raises BadRequest."""
        name = REQUEST_PROFILE.get()
        if name is None:
            return self.active_profile()
        if not name:
            return NO_PROFILE
        try:
            return self.find_profile(name)
        except NotFound as error:
            raise BadRequest(error.body.sentence, hint=error.hint, code=error.code) from None

    def save_profile(self, request: SaveProfile) -> Profile:
        """Keep a profile. Raises BadRequest, Conflict, NotFound or StorageFault."""
        profile, old = request.profile, request.replaced or request.profile.name
        check_profile(profile)
        if request.replaced:
            self.find_profile(request.replaced)
            if old != profile.name and profile.name in self._tables.values:
                raise Conflict(f"There is a profile called {profile.name} already.", hint="Choose another name.")
        if len(self._tables.values.keys() | {profile.name}) > MOST_PROFILES + (old != profile.name):
            raise BadRequest(f"There can be {MOST_PROFILES} profiles.", hint="Remove some first.")
        self._tables.change_values(
            {old: None, profile.name: profile} if old != profile.name else {profile.name: profile}
        )
        self._rename_in_state(old, profile.name)
        return profile

    def remove_profile(self, name: str) -> None:
        """Forget a profile; one that is active is active no more. Raises NotFound or StorageFault."""
        self.find_profile(name)
        self._tables.change_values({name: None})
        self._rename_in_state(name, "")

    def set_state(self, state: ProfileState) -> None:
        """Note which profile is active. A state that cannot be kept counts until the gateway ends."""
        self.state = state
        if self._state_file is not None:
            try:
                save_private(self._state_file, msgspec.json.encode(state), "which profile is active")
            except StorageFault as error:
                log.warning("Which profile is active cannot be kept: %s", error)

    def _rename_in_state(self, old: str, new: str) -> None:
        state = self.state
        if old != new and old in (state.active, state.before):
            self.set_state(
                msgspec.structs.replace(
                    state,
                    active=new if state.active == old else state.active,
                    before=new if state.before == old else state.before,
                )
            )


def _read_state(file: Path) -> ProfileState:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(file.read_bytes(), type=ProfileState)
    return ProfileState()
