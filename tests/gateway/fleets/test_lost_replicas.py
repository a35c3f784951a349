"""Requests that wait at a replica that answers nothing: which are given back, and when."""

from collections.abc import Sequence

import pytest

from app.core.errors import EngineFailed
from app.gateway.exchange.observer import Caller, Observation, Observers
from app.gateway.fleets.lost_replicas import LEAST_S, MOST_S, NONE_S, LostReplicas

URL = "http://10.0.0.2:8000"


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Waiting:
    """Requests, each with when something of it came last; notes those that were given back."""

    def __init__(self, *last: float) -> None:
        self.errors: dict[float, EngineFailed | None] = {}
        self.last = list(last)

    def list_silent(self, model: str, since: float) -> Sequence[Observation]:
        assert model == "team"
        return [self._observation(at) for at in self.last if at < since and at not in self.errors]

    def _observation(self, at: float) -> Observation:
        observation, requests = Observation(Caller(), Observers(())), self

        class Connection:
            def break_off(self, error: EngineFailed | None = None) -> None:
                requests.errors[at] = error

        observation.note_connection(Connection())
        return observation


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lose(requests: Waiting, clock: Clock, load: int | None) -> LostReplicas:
    replicas = LostReplicas("team", requests.list_silent, clock)
    replicas.put_lost({URL: load})
    return replicas


def test_those_that_the_router_had_there_are_given_back_after_a_while(clock: Clock) -> None:
    requests = Waiting(990.0, 991.0, 1001.0)
    replicas = lose(requests, clock, 2)
    assert replicas.give_back(is_none_left=False) == 0
    clock.now_s += LEAST_S
    assert replicas.give_back(is_none_left=False) == 2
    assert set(requests.errors) == {990.0, 991.0}, "what was sent afterwards went elsewhere"
    (error, *_) = requests.errors.values()
    assert error is not None
    assert URL in error.body.sentence
    assert replicas.give_back(is_none_left=False) == 0


def test_while_others_are_still_at_work_they_are_waited_for_but_not_for_ever(clock: Clock) -> None:
    requests = Waiting(990.0, 991.0)
    replicas = lose(requests, clock, 1)
    clock.now_s += MOST_S - 1
    assert replicas.give_back(is_none_left=False) == 0
    clock.now_s += 1
    assert replicas.give_back(is_none_left=False) == 2


def test_as_soon_as_the_others_have_answered_what_is_left_is_given_back(clock: Clock) -> None:
    requests = Waiting(990.0, 991.0)
    replicas = lose(requests, clock, 1)
    clock.now_s += LEAST_S
    assert replicas.give_back(is_none_left=False) == 0
    requests.last.remove(991.0)
    assert replicas.give_back(is_none_left=False) == 1


def test_one_that_comes_back_keeps_its_requests(clock: Clock) -> None:
    requests = Waiting(990.0)
    replicas = lose(requests, clock, 1)
    replicas.put_lost({})
    clock.now_s += MOST_S
    assert replicas.give_back(is_none_left=False) == 0


def test_a_router_that_does_not_say_what_it_has_where_is_given_its_time(clock: Clock) -> None:
    requests = Waiting(990.0)
    replicas = lose(requests, clock, None)
    clock.now_s += MOST_S - 1
    assert replicas.give_back(is_none_left=False) == 0
    clock.now_s += 1
    assert replicas.give_back(is_none_left=False) == 1


def test_where_no_replica_works_every_request_ends_that_waits_for_long(clock: Clock) -> None:
    requests = Waiting(990.0, 1000.0)
    replicas = lose(requests, clock, 0)
    clock.now_s = 991.0 + NONE_S
    assert replicas.give_back(is_none_left=True) == 1
    clock.now_s = 1001.0 + NONE_S
    assert replicas.give_back(is_none_left=True) == 1
