"""Addresses that are never called, in every form they can be written in."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.connections import is_forbidden


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "0.0.0.0",  # noqa: S104 -- not bound
        "::",
        "224.0.0.1",
        "ff02::1",
    ],
)
def test_machines_secrets_are_out_of_reach(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "192.168.1.7", "10.0.0.1", "fd12:3456::1", "93.184.216.34", "2606:2800::1", "box", ""],
)
def test_this_computer_the_local_network_and_the_rest_are_within(address: str) -> None:
    assert not is_forbidden(address)


@given(st.integers(0, 0xFFFF))
def test_link_local_is_forbidden_whole_and_in_its_ipv6_forms(low: int) -> None:
    address = ipaddress.IPv4Address((169 << 24) | (254 << 16) | low)
    assert is_forbidden(str(address))
    assert is_forbidden(f"::ffff:{address}")
    assert is_forbidden(f"64:ff9b::{address}")


@given(st.text(max_size=40))
def test_anything_can_be_asked(text: str) -> None:
    assert isinstance(is_forbidden(text), bool)
