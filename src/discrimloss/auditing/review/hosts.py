"""The address of a review, and the host names under which browsers may open it.

A page of another site may send requests to this machine under its own host name, if that name
resolves to this machine. Such names are refused. Only numeric addresses, which no other site can
use, and the names of this machine are accepted.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
_ELSEWHERE = ("192.0.2.1", 9)
"""An address reserved for documentation. Nothing is sent to it; the system only selects a route."""


@dataclass(frozen=True)
class Listening:
    """The address on which a review listens."""

    host: str = LOOPBACK

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        address = _address(self.host)
        return self.host == "localhost" or (address is not None and address.is_loopback)

    @property
    def family(self) -> socket.AddressFamily:
        """The family of the address.

        Raises:
            OSError: the host is neither an address nor a known name.
        """
        found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
        return found[0][0]

    @property
    def shown_host(self) -> str:
        """The host in the address of the page."""
        address = _address(self.host)
        if address is None or not address.is_unspecified:
            return _in_url(self.host)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
                way.connect(_ELSEWHERE)
                return str(way.getsockname()[0])
        except OSError:
            return socket.gethostname()

    def url(self, port: int, token: str) -> str:
        """Return the URL to open in a browser."""
        return f"http://{self.shown_host}:{port}/?token={token}"

    def accepts(self, header: str, port: int) -> bool:
        """Return whether a `Host` header names this server.

        Args:
            header: the header from the browser.
            port: port of the server.
        """
        name, colon, number = header.lower().rpartition(":")
        if not colon or number != str(port):
            return False
        if self.is_loopback:
            return name in {LOOPBACK, "localhost", _in_url(self.host)}
        if _address(name.removeprefix("[").removesuffix("]")) is not None:
            return True
        own = socket.gethostname().lower()
        return name in {"localhost", self.host.lower(), own, f"{own}.local"}


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
