"""Two machines get to know each other's certificates by a code that a person carries from one screen to the other.

SPAKE2 (the `spake2` package's, over Ed25519) makes a key of the code. Who does not know the code can try one for each
exchange, also when all messages pass through their hands, and learns nothing to try others with at leisure. Both sides
then prove the key over everything that was said: a certificate, name or port that somebody changed on the way ends the
pairing. A code lasts `CODE_S` seconds and `TRIES` exchanges, counted when they begin, and serves one machine.

    initiator (a person types the code)          host (its screen shows the code)
      PairOpening   message, card         ->
                                             <-  PairReply   session, message, card
      PairProof     session, proof        ->  checks it, and keeps the initiator as a guest for `GUEST_S`
                                             <-  PairVerdict proof
      checks it, and trusts the host,
      which has to confirm that:
      any request with its certificate    ->  trusts the guest
                                             <-  its answer
      knows that both are paired

Whatever is lost on the way, both end alike: before the initiator trusts the host neither has written anything; after
that it asks the host until that answers, which pairs both, or refuses it as a stranger, which has it forget the host.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec

from app.core.errors import BadRequest, TooManyRequests
from app.core.machines import MachineCard, MachineCode

CODE_S = 300.0
"""Long enough to walk to the other machine and type it."""
GUEST_S = 300.0
"""How long the host expects the first request of who proved the code: it comes at once unless the network fails."""
TRIES = 3
"""One for the person, two for mistakes: of 10^8 codes a stranger guesses right with 3 in 10^8."""
_DIGITS = 8
_HALF = 4
LONGEST_MESSAGE = 16 * 1024
"""Bytes of any of the messages."""
_PURPOSE = b"roundhouse machine pairing 1"
_INITIATOR, _HOST = b"initiator", b"host"

_Hex = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]+$", max_length=256)]


class PairOpening(msgspec.Struct, frozen=True, kw_only=True):
    """The first message."""

    message: _Hex
    card: MachineCard


class PairReply(msgspec.Struct, frozen=True, kw_only=True):
    """The host's."""

    session: _Hex
    message: _Hex
    card: MachineCard


class PairProof(msgspec.Struct, frozen=True, kw_only=True):
    """The initiator has the key."""

    session: _Hex
    proof: _Hex


class PairVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """So has the host, which trusts the initiator as soon as that shows its certificate."""

    proof: _Hex


class PairRefusal(BadRequest):
    """The two do not have the same code, or somebody changed what one of them said."""

    default_code = "pairing_refused"

    def __init__(self) -> None:
        super().__init__(
            "The code is wrong, or somebody on the network changed a message.",
            hint="Have the other machine show a new code, and type that.",
        )


class PairClosure(TooManyRequests):
    """No code is shown, or it has been used up."""

    default_code = "pairing_closed"

    def __init__(self) -> None:
        super().__init__(
            "No code is shown there now, or the one that was is used up.",
            hint="Have the other machine show a new code: `roundhouse machines code`.",
        )


class PairGuest(NamedTuple):
    """Who proved the code, and from which address."""

    card: MachineCard
    host: str
    until_s: float


class _Session(NamedTuple):
    expected: bytes
    verdict: bytes
    card: MachineCard


class PairHost:
    """The side that shows the code; `own` is its card at the time. Belongs to one thread. Takes 30 ms for each try."""

    def __init__(self, own: Callable[[], MachineCard], clock: Callable[[], float] = time.monotonic) -> None:
        self._own, self._clock = own, clock
        self._code = ""
        self._until_s = 0.0
        self._tries = 0
        self._sessions: dict[str, _Session] = {}
        self._guests: dict[str, PairGuest] = {}
        """Who proved a code and is not trusted yet, by the fingerprint of the certificate."""

    def show_code(self) -> MachineCode:
        """Make a new code, in place of the one there was."""
        self._code = f"{secrets.randbelow(10**_DIGITS):0{_DIGITS}}"
        self._until_s, self._tries = self._clock() + CODE_S, TRIES
        self._sessions.clear()
        return MachineCode(code=f"{self._code[:_HALF]}-{self._code[_HALF:]}", seconds=CODE_S)

    def hide_code(self) -> None:
        """Let nobody pair any more, also who has proved the code and is not trusted yet."""
        self._end_code()
        self._guests.clear()

    @property
    def is_open(self) -> bool:
        """Whether the code still counts."""
        return bool(self._code) and (self._tries > 0 or bool(self._sessions)) and self._clock() < self._until_s

    def answer_opening(self, pair_opening: PairOpening) -> PairReply:
        """Use up a try. Raises PairClosure, PairRefusal."""
        self._check_open()
        if not self._tries:
            raise PairClosure
        self._tries -= 1
        exchange = _Exchange(self._code, is_host=True)
        card = self._own()
        expected_proof, verdict = exchange.make_proofs(pair_opening.message, (pair_opening.card, card))
        session = secrets.token_hex(16)
        self._sessions[session] = _Session(expected_proof, verdict, pair_opening.card)
        return PairReply(session=session, message=exchange.message, card=card)

    def check_proof(self, proof: PairProof) -> tuple[MachineCard, PairVerdict]:
        """Return whom to expect from now on, and what to say. Raises PairClosure, PairRefusal."""
        self._check_open()
        session = self._sessions.pop(proof.session, None)
        if session is None:
            raise PairClosure
        if not hmac.compare_digest(session.expected, bytes.fromhex(_even(proof.proof))):
            raise PairRefusal
        self._end_code()
        return session.card, PairVerdict(proof=session.verdict.hex())

    def put_guest(self, fingerprint: str, card: MachineCard, host: str) -> None:
        """Expect the first request of who proved the code; it comes with the certificate of that fingerprint."""
        self._guests[fingerprint] = PairGuest(card, host, self._clock() + GUEST_S)

    def find_guest(self, fingerprint: str) -> PairGuest | None:
        """Return who proved the code and is still expected with a certificate."""
        guest = self._guests.get(fingerprint)
        return guest if guest is not None and self._clock() < guest.until_s else None

    def remove_guest(self, fingerprint: str) -> None:
        """Expect somebody no longer: the machine is trusted now."""
        self._guests.pop(fingerprint, None)

    def _check_open(self) -> None:
        if not self._code or self._clock() >= self._until_s:
            self._end_code()
            raise PairClosure

    def _end_code(self) -> None:
        self._code, self._tries = "", 0
        self._sessions.clear()


class PairInitiator:
    """The side where the code is typed. One for each try."""

    def __init__(self, code: str, own: MachineCard) -> None:
        """Begin with the code as typed. Raises BadRequest for what is none."""
        self._own = own
        self._exchange = _Exchange(read_code(code), is_host=False)
        self._expected_proof = b""
        self._card: MachineCard | None = None

    def make_opening(self) -> PairOpening:
        """Return the first message."""
        return PairOpening(message=self._exchange.message, card=self._own)

    def answer_reply(self, reply: PairReply) -> PairProof:
        """Return the second message. Raises PairRefusal."""
        proof, self._expected_proof = self._exchange.make_proofs(reply.message, (self._own, reply.card))
        self._card = reply.card
        return PairProof(session=reply.session, proof=proof.hex())

    def check_verdict(self, verdict: PairVerdict) -> MachineCard:
        """Return whom to trust from now on. Raises PairRefusal."""
        if self._card is None or not hmac.compare_digest(self._expected_proof, bytes.fromhex(_even(verdict.proof))):
            raise PairRefusal
        return self._card


def read_code(text: str) -> str:
    """Return a code's digits, however a person types them. Raises BadRequest."""
    digits = "".join(character for character in text if character not in " -\t")
    if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"A code has {_DIGITS} digits, as in 1234-5678.", code="invalid_value")
    return digits


class _Exchange:
    """SPAKE2, and the proofs that both sides make of its key."""

    def __init__(self, code: str, *, is_host: bool) -> None:
        from spake2 import SPAKE2_A, SPAKE2_B  # noqa: PLC0415 -- computes its curve when imported; few ever pair

        side = SPAKE2_B if is_host else SPAKE2_A
        self._side = side(code.encode(), idA=_INITIATOR, idB=_HOST)
        self._is_host = is_host
        self._message: bytes = self._side.start()

    @property
    def message(self) -> str:
        """What the other side is sent."""
        return self._message.hex()

    def make_proofs(self, message: str, cards: tuple[MachineCard, MachineCard]) -> tuple[bytes, bytes]:
        """Return the initiator's proof and the host's. Raises PairRefusal for a message that is none."""
        from spake2 import SPAKEError  # noqa: PLC0415 -- as above

        theirs = bytes.fromhex(_even(message))
        try:
            key: bytes = self._side.finish(theirs)
        except (SPAKEError, ValueError, AssertionError):  # the package asserts that points are on the curve
            raise PairRefusal from None
        messages = (theirs, self._message) if self._is_host else (self._message, theirs)
        whole = hashlib.sha256(_PURPOSE)
        for part in (*messages, *map(msgspec.json.encode, cards)):
            whole.update(len(part).to_bytes(8, "big") + part)
        digest = whole.digest()
        return _prove(key, _INITIATOR, digest), _prove(key, _HOST, digest)


def _prove(key: bytes, who: bytes, digest: bytes) -> bytes:
    return hmac.digest(key, who + digest, "sha256")


def _even(text: str) -> str:
    return text if len(text) % 2 == 0 else ""
