import os
import socket
import stat
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import msgspec
import pytest

from app.config.paths import Paths
from app.core.api import PortFile
from app.core.errors import EnvironmentFault
from app.gateway.instance import AlreadyRunning, Endpoint, Instance, bind


def read_port_file(paths: Paths) -> PortFile:
    return msgspec.json.decode(paths.port_file.read_bytes(), type=PortFile)


def test_the_port_file_is_private_and_goes_with_the_gateway(paths: Paths) -> None:
    with Instance(paths) as instance:
        instance.announce(url="http://127.0.0.1:1", created_at=1.5, version="1")
        port_file = read_port_file(paths)
        assert (port_file.pid, port_file.url, port_file.created_at) == (os.getpid(), "http://127.0.0.1:1", 1.5)
        assert len(port_file.token) >= 32
        if sys.platform != "win32":
            assert stat.S_IMODE(paths.port_file.stat().st_mode) == 0o600
    assert not paths.port_file.exists()
    assert {file.name for file in paths.state.iterdir()} == {paths.lock_file.name, paths.engine_records.name}


def test_a_second_gateway_is_told_where_the_first_one_is(paths: Paths) -> None:
    with Instance(paths) as first:
        with pytest.raises(AlreadyRunning, match="just starting"), Instance(paths, patience_s=0.05):
            pass
        first.announce(url="http://127.0.0.1:4321", created_at=1.5, version="1")
        with pytest.raises(AlreadyRunning, match=r"http://127\.0\.0\.1:4321"), Instance(paths):
            pass
        assert read_port_file(paths).url == "http://127.0.0.1:4321"
    with Instance(paths) as third:
        assert third.token != first.token


def test_a_folder_in_place_of_the_port_file_is_said_before_anything_starts(paths: Paths) -> None:
    paths.port_file.mkdir()
    with pytest.raises(EnvironmentFault, match=r"gateway\.json cannot be written"), Instance(paths):
        pass


def test_a_link_in_place_of_a_half_written_port_file_is_not_followed(paths: Paths) -> None:
    target = paths.config / "theirs"
    target.write_text("theirs")
    paths.port_file.with_name(f"{paths.port_file.name}.part").symlink_to(target)
    with Instance(paths) as instance:
        instance.announce(url="http://127.0.0.1:2", created_at=1.5, version="1")
        assert read_port_file(paths).token == instance.token
    assert target.read_text() == "theirs"


def test_what_a_killed_gateway_left_behind_is_no_obstacle(paths: Paths) -> None:
    paths.port_file.write_text("not even JSON", encoding="utf-8")
    paths.lock_file.write_text("", encoding="utf-8")
    with Instance(paths) as instance:
        instance.announce(url="http://127.0.0.1:2", created_at=1.5, version="1")
        assert read_port_file(paths).url == "http://127.0.0.1:2"


def test_one_that_is_ending_is_waited_for(paths: Paths) -> None:
    with ThreadPoolExecutor(1) as another, ExitStack() as stack:
        first = stack.enter_context(Instance(paths))
        first.announce(url="http://127.0.0.1:1", created_at=1.5, version="1")
        first.withdraw()
        assert not paths.port_file.exists()
        waiting_instance = another.submit(Instance(paths).__enter__)
        assert not wait([waiting_instance], timeout=0.1).done
        stack.close()
        second = waiting_instance.result(5)
        second.__exit__(None, None, None)


def test_a_lock_that_cannot_be_had_is_said_plainly(paths: Paths) -> None:
    paths.lock_file.mkdir()
    with pytest.raises(EnvironmentFault, match=r"gateway\.lock cannot be written"), Instance(paths):
        pass


def port_of(endpoint: Endpoint) -> int:
    port: int = endpoint.sockets[0].getsockname()[1]
    return port


def close(endpoint: Endpoint) -> None:
    for bound_socket in endpoint.sockets:
        bound_socket.close()


def test_the_wanted_port_is_taken_without_a_word(unused_port: int) -> None:
    endpoint = bind("127.0.0.1", unused_port)
    assert (endpoint.url, endpoint.notice) == (f"http://127.0.0.1:{unused_port}", "")
    close(endpoint)


def test_a_taken_port_gives_the_next_one_and_a_notice(unused_port: int) -> None:
    with socket.create_server(("127.0.0.1", unused_port)):
        endpoint = bind("127.0.0.1", unused_port)
        assert port_of(endpoint) > unused_port
        assert str(unused_port) in endpoint.notice
        assert str(port_of(endpoint)) in endpoint.notice
        close(endpoint)


def test_when_all_are_taken_it_says_so(unused_port: int) -> None:
    with (
        socket.create_server(("127.0.0.1", unused_port)),
        pytest.raises(EnvironmentFault, match=str(unused_port)) as error,
    ):
        bind("127.0.0.1", unused_port, tries=1)
    assert "gateway.port" in error.value.hint


def test_localhost_is_every_loopback_address_there_is(unused_port: int) -> None:
    endpoint = bind("localhost", unused_port)
    assert endpoint.url == f"http://localhost:{unused_port}"
    addresses = {bound_socket.getsockname()[0] for bound_socket in endpoint.sockets}
    assert "127.0.0.1" in addresses
    assert addresses <= {"127.0.0.1", "::1"}
    close(endpoint)
