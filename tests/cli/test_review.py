"""`discrimloss review` from outside: what it says, refuses and leaves behind."""

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from audit_fixtures import MadeAudit, made_audit
from command_line import refused

from discrimloss.auditing.review.server import TOKEN_HEADER, ReviewServer
from discrimloss.auditing.review.serving import last_address, serve_at
from discrimloss.cli import main


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    return made_audit(monkeypatch, tmp_path)


@pytest.mark.parametrize("command", ["review", "apply"])
def test_what_is_no_finished_audit(
    audit: MadeAudit, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert "there is no directory" in refused(capsys, command, str(tmp_path / "nowhere"))
    assert "holds no audit" in refused(capsys, command, str(tmp_path))
    audit.source.labels[0] = "dog"
    assert "has changed since it was audited" in refused(capsys, command, str(audit.path))
    (audit.path / "summary.json").unlink()
    assert "is not finished" in refused(capsys, command, str(audit.path))


def test_a_log_of_another_audit(audit: MadeAudit, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"event": "e", "tab": "t", "action": "keep", "index": 0, "id": "other", "time": "t"}
    (audit.path / "decisions.jsonl").write_text(json.dumps(event) + "\n")
    for command in ("review", "apply"):
        assert "not a sample of this audit" in refused(capsys, command, str(audit.path))


def test_one_review_at_a_time(audit: MadeAudit, capsys: pytest.CaptureFixture[str]) -> None:
    session = audit.session()
    with serve_at(session, None) as server:
        sentence = refused(capsys, "review", str(audit.path))
    session.close()
    assert "is already being reviewed" in sentence
    assert server.url in sentence


def test_a_taken_port(audit: MadeAudit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_at(audit.session(), None) as server:
        server.session.close()
        sentence = refused(capsys, "review", str(audit.path), "--port", str(server.server_port))
    assert f"cannot listen on port {server.server_port}" in sentence
    assert "--port" in refused(capsys, "review", str(audit.path), "--port", "70000")


def test_a_review_ends_with_what_to_do_next(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    has_opened = threading.Event()

    def open_page(url: str) -> bool:
        opened.append(url)
        has_opened.set()
        return True

    def one_decision_then_ctrl_c(server: ReviewServer) -> None:
        assert has_opened.wait(20)
        server.session.decide({"event": "e", "tab": "t", "action": "keep", "index": 0})
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.setattr(ReviewServer, "serve_forever", one_decision_then_ctrl_c)
    assert main(["review", str(audit.path), "--open"]) == 0
    printed = capsys.readouterr().out
    address = last_address(audit.path)
    assert address is not None
    assert opened == [address.url]
    assert address.url in printed
    assert "4 labels called incorrect, 0 of them reviewed" in printed
    assert f"Decisions are in {audit.path / 'decisions.jsonl'}" in printed
    assert f"discrimloss apply {audit.path}" in printed
    audit.session().close()  # the lock is gone


SERVE = """
import sys
from pathlib import Path
import pytest
from audit_fixtures import made_audit
from discrimloss.cli import main
with pytest.MonkeyPatch.context() as patch:
    audit = made_audit(patch, Path(sys.argv[1]))
    sys.exit(main(["review", str(audit.path)]))
"""


def test_a_process_of_its_own_stops_with_ctrl_c(tmp_path: Path) -> None:
    paths = [str(Path(__file__).parents[1] / "helpers"), *sys.path]
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{SERVE}", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        url = lines[1].strip()
        token = url.partition("=")[2]
        body = {"event": "e", "tab": "t", "action": "drop", "index": 3}
        request = urllib.request.Request(
            f"{url.partition('?')[0]}api/decisions",
            json.dumps(body).encode(),
            {TOKEN_HEADER: token, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["saved"] == "e"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert "Write the corrected data with: discrimloss apply" in rest
    assert '"drop"' in (tmp_path / "audit" / "decisions.jsonl").read_text("utf-8")
