"""The port of a review page follows from the directory of the audit."""

from __future__ import annotations

from pathlib import Path

from discrimloss.auditing.review.usual_port import FIRST_PORT, PORTS, review_address, usual_port


def test_the_port_of_an_audit_stays_and_differs_from_others(tmp_path: Path) -> None:
    ports = [usual_port(tmp_path / str(number)) for number in range(20)]
    assert ports == [usual_port(tmp_path / "x" / ".." / str(number)) for number in range(20)]
    assert len(set(ports)) > 15
    assert all(FIRST_PORT <= port < FIRST_PORT + PORTS for port in ports)


def test_the_address_has_the_port_of_the_last_review_or_the_usual_one(tmp_path: Path) -> None:
    assert review_address(tmp_path) == f"http://127.0.0.1:{usual_port(tmp_path)}/"
