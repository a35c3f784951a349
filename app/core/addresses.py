"""Addresses that are never called for a person: they answer any program on a rented machine with its secrets.

Link-local ones and those at which the clouds keep machines' credentials, in every form they can be written in. This
computer and the local network are allowed: that is where attached endpoints are.
"""

import ipaddress

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",  # link-local; AWS, Azure, Google, DigitalOcean, ECS
            "fe80::/10",
            "fd00:ec2::/32",  # AWS
            "fd20:ce::/32",  # Google
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure's host
            "192.0.0.192/32",  # Oracle
        ),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_V4_BITS = 0xFFFFFFFF


def is_forbidden(address: str) -> bool:
    """Tell whether an address in figures must not be called. False for a name: look it up first."""
    try:
        target = _unwrap_address(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    if target.is_multicast or target.is_unspecified:
        return True
    return any(target in network for network in _METADATA if network.version == target.version)


def _unwrap_address(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & _V4_BITS)
    return address.ipv4_mapped or address.sixtofour or address
