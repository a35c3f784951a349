"""Pairing by a code: who has it gets in once, and nobody else does, whatever they change, repeat or keep."""

import base64

import msgspec
import pytest

from app.core.errors import BadRequest
from app.core.machines import MachineCard
from app.machines.pairing import (
    CODE_S,
    GUEST_S,
    TRIES,
    PairClosure,
    PairHost,
    PairInitiator,
    PairOpening,
    PairProof,
    PairRefusal,
    PairVerdict,
    read_code,
)


def card(name: str) -> MachineCard:
    return MachineCard(name=name, certificate=base64.b64encode(name.encode() * 48).decode(), port=11643)


DESK, LAP, STRANGER = card("desk"), card("lap"), card("stranger")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(clock: Clock) -> PairHost:
    return PairHost(lambda: DESK, clock)


def wrong(code: str) -> str:
    return f"{(int(read_code(code)) + 1) % 10**8:08}"


def test_both_sides_trust_each_other(host: PairHost) -> None:
    initiator = PairInitiator(host.show_code().code, LAP)
    proof = initiator.answer_reply(host.answer_opening(initiator.make_opening()))
    guest, verdict = host.check_proof(proof)
    assert guest == LAP
    assert initiator.check_verdict(verdict) == DESK


def test_a_guest_is_expected_for_a_while_and_no_longer_once_the_code_is_hidden(host: PairHost, clock: Clock) -> None:
    for name in ("trusted", "hidden", "late"):
        host.put_guest(name, LAP, "192.168.1.7")
    guest = host.find_guest("trusted")
    assert guest is not None
    assert (guest.card, guest.host, host.find_guest("another")) == (LAP, "192.168.1.7", None)
    host.remove_guest("trusted")
    assert host.find_guest("trusted") is None
    clock.now_s += GUEST_S
    assert host.find_guest("late") is None
    clock.now_s = 0.0
    host.hide_code()
    assert host.find_guest("hidden") is None


def test_a_code_serves_one_machine(host: PairHost) -> None:
    code = host.show_code().code
    initiator = PairInitiator(code, LAP)
    host.check_proof(initiator.answer_reply(host.answer_opening(initiator.make_opening())))
    with pytest.raises(PairClosure):
        host.answer_opening(PairInitiator(code, STRANGER).make_opening())


def test_a_wrong_code_is_refused_and_few_are_taken(host: PairHost) -> None:
    code = host.show_code().code
    for _ in range(TRIES):
        initiator = PairInitiator(wrong(code), STRANGER)
        proof = initiator.answer_reply(host.answer_opening(initiator.make_opening()))
        with pytest.raises(PairRefusal):
            host.check_proof(proof)
    with pytest.raises(PairClosure):
        host.answer_opening(PairInitiator(code, LAP).make_opening())


def test_exchanges_that_are_only_begun_count(host: PairHost) -> None:
    """Else a stranger would begin a thousand, and go on with the one whose guess the host's message fits."""
    code = host.show_code().code
    for _ in range(TRIES):
        host.answer_opening(PairInitiator(code, STRANGER).make_opening())
    with pytest.raises(PairClosure):
        host.answer_opening(PairInitiator(code, LAP).make_opening())


def test_a_code_expires_also_between_the_messages(host: PairHost, clock: Clock) -> None:
    initiator = PairInitiator(host.show_code().code, LAP)
    proof = initiator.answer_reply(host.answer_opening(initiator.make_opening()))
    clock.now_s = CODE_S
    with pytest.raises(PairClosure):
        host.check_proof(proof)


def test_without_a_code_nothing_is_answered(host: PairHost) -> None:
    with pytest.raises(PairClosure):
        host.answer_opening(PairInitiator("12345678", LAP).make_opening())


def test_a_proof_counts_once(host: PairHost) -> None:
    initiator = PairInitiator(host.show_code().code, LAP)
    proof = initiator.answer_reply(host.answer_opening(initiator.make_opening()))
    host.check_proof(proof)
    host.show_code()
    with pytest.raises(PairClosure):
        host.check_proof(proof)


def test_what_was_recorded_is_worth_nothing_later(host: PairHost) -> None:
    """The same opening again gets another message of the host's, which the recorded proof does not fit."""
    initiator = PairInitiator(host.show_code().code, LAP)
    pair_opening = initiator.make_opening()
    proof = initiator.answer_reply(host.answer_opening(pair_opening))
    again = host.answer_opening(pair_opening)
    with pytest.raises(PairRefusal):
        host.check_proof(PairProof(session=again.session, proof=proof.proof))


@pytest.mark.parametrize("change", [{"certificate": STRANGER.certificate}, {"port": 1}, {"name": "other"}])
def test_who_changes_a_card_on_the_way_is_noticed_by_both(host: PairHost, change: dict[str, object]) -> None:
    code = host.show_code().code
    initiator = PairInitiator(code, LAP)
    pair_opening = initiator.make_opening()
    changed_opening = msgspec.structs.replace(pair_opening, card=msgspec.structs.replace(LAP, **change))
    with pytest.raises(PairRefusal):
        host.check_proof(initiator.answer_reply(host.answer_opening(changed_opening)))

    initiator = PairInitiator(code, LAP)
    reply = host.answer_opening(initiator.make_opening())
    changed_reply = msgspec.structs.replace(reply, card=msgspec.structs.replace(DESK, **change))
    with pytest.raises(PairRefusal):
        host.check_proof(initiator.answer_reply(changed_reply))


def test_a_stranger_in_between_pairs_with_neither(host: PairHost) -> None:
    """Plays the host to one and the initiator to the other, guessing the code."""
    code = host.show_code().code
    victim = PairInitiator(code, LAP)
    false_host = PairHost(lambda: STRANGER)
    false_host._code, false_host._until_s, false_host._tries = wrong(code), float("inf"), TRIES
    proof = victim.answer_reply(false_host.answer_opening(victim.make_opening()))
    with pytest.raises(PairRefusal):
        false_host.check_proof(proof)
    with pytest.raises(PairRefusal):
        victim.check_verdict(PairVerdict(proof=proof.proof))


@pytest.mark.parametrize("message", ["", "a", "00", "42" * 33, "41" + "00" * 32, "41" + "ff" * 32])
def test_a_message_that_is_none_is_refused(host: PairHost, message: str) -> None:
    host.show_code()
    if not message:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"message": message, "card": LAP}, PairOpening)
        return
    with pytest.raises(PairRefusal):
        host.answer_opening(PairOpening(message=message, card=LAP))


@pytest.mark.parametrize("text", ["", "1234", "1234-567x", "1234-56789", "\uff11234-5678"])
def test_what_is_no_code_is_said_before_anything_is_sent(text: str) -> None:
    with pytest.raises(BadRequest):
        PairInitiator(text, LAP)


def test_a_code_may_be_typed_as_people_type() -> None:
    assert read_code(" 1234 5678 ") == read_code("1234-5678") == "12345678"
