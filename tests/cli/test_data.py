"""`discrimloss data` from outside: what it prints, fetches and refuses."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from file_server import FileServer, file_server

import discrimloss
from discrimloss.cli import main
from discrimloss.data import DataError, Split, TaskData, TensorInputs, datasets
from discrimloss.data.published_files import (
    BuiltIn,
    ByHand,
    Download,
    KnownFile,
    RemoteFile,
    obtained,
)

BODY = bytes(range(256)) * 4000
CHECKSUM = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("DISCRIMLOSS_DATA", raising=False)
    monkeypatch.setattr("discrimloss.data.download._FIRST_WAIT", 0.0)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as server:
        yield server


@pytest.fixture
def toys(server: FileServer) -> Iterator[None]:
    """A dataset of each kind: to download, to get by hand, and built in."""

    def load_toy(directory: Path, *, rows: int = 3) -> TaskData:
        """Bytes to tell apart."""
        file = directory / "toy/file.bin"
        if not file.is_file():
            raise DataError(f"there is no {file}: fetch it")
        part = Split(TensorInputs(torch.zeros(1200, rows)), torch.zeros(1200, dtype=torch.int64))
        return TaskData(part, part.select(torch.arange(9)), 4, notes=("2 [files] were skipped",))

    def load_extra(directory: Path) -> TaskData:
        """Much to ask for."""
        return load_toy(directory)

    def load_made(directory: Path) -> TaskData:
        """Made of nothing."""
        part = Split(TensorInputs(torch.zeros(5, 1)), torch.zeros(5))
        return TaskData(part, part, None, validation=part)

    url = server.serve("file.bin", BODY)
    file = RemoteFile("toy/file.bin", len(BODY), CHECKSUM, urls=(url,))
    labels = RemoteFile("toy/labels", urls=(server.serve("labels", b"01"),), optional=True)
    kinds = {
        "toy": obtained(Download((file, labels), terms="be kind."))(load_toy),
        "toy-by-hand": obtained(ByHand("ask nicely", ((KnownFile("asked"),),)))(load_extra),
        "toy-made": obtained(BuiltIn("it is made of nothing"))(load_made),
    }
    datasets.names()  # the real ones first
    for name, loader in kinds.items():
        datasets.register(name)(loader)
    yield
    for name in kinds:
        del datasets.registered[name]


pytestmark = pytest.mark.usefixtures("toys")


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """The lines on stdout of a command that must succeed and be silent otherwise."""
    code = main(["data", *map(str, arguments)])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    lines: list[str] = captured.out.splitlines()
    return lines


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """The one sentence on stderr of a command that must fail."""
    assert main(["data", *map(str, arguments)]) == code
    error = capsys.readouterr().err
    assert re.fullmatch(r"discrimloss: [^\n]+\n", error)
    sentence: str = error.removeprefix("discrimloss: ").rstrip("\n")
    return sentence


def rows(lines: list[str]) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if "│" in line]
    return {row[0]: row[1:] for row in cells}


# ls


def test_ls_says_what_it_is_how_to_get_it_and_whether_it_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def there() -> dict[str, list[str]]:
        return rows(printed(capsys, "ls", "--data", tmp_path))

    table = there()
    assert table["toy"] == ["Bytes to tell apart.", "fetch (1 MB)", "no"]
    assert table["toy-by-hand"] == ["Much to ask for.", "by hand", "no"]
    assert table["toy-made"] == ["Made of nothing.", "built in", "yes"]
    (tmp_path / "asked").touch()
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin").write_bytes(BODY[1:])
    assert there()["toy-by-hand"][-1] == "yes"
    assert there()["toy"][-1] == "partly"
    (tmp_path / "toy/file.bin").write_bytes(BODY)
    assert there()["toy"][-1] == "yes"  # without the labels, which are optional


def test_ls_knows_every_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "ls")
    assert set(datasets.names()) <= set(rows(lines))
    assert rows(lines)["toy"][-1] == "?"
    assert "--data or DISCRIMLOSS_DATA" in lines[-1]


# fetch


def test_fetch_downloads_once(
    tmp_path: Path, server: FileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = hashlib.sha256(b"01").hexdigest()
    unknown = f"there is no published checksum; sha256:{labels}"
    assert printed(capsys, "fetch", "toy", "--data", tmp_path / "new") == [
        f"toy/file.bin: downloaded from {server.address}/file.bin",
        f"toy/labels: downloaded from {server.address}/labels; {unknown}",
        "Terms: be kind.",
        "Next: discrimloss data check toy",
    ]
    assert (tmp_path / "new/toy/file.bin").read_bytes() == BODY
    server.requests.clear()
    assert printed(capsys, "fetch", "toy", "--data", tmp_path / "new")[0] == (
        "toy/file.bin: already there"
    )
    assert server.requests == []


def test_on_a_terminal_a_bar_shows_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # which counts as a terminal
    assert main(["data", "fetch", "toy", "--data", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert re.search(r"file\.bin.*1\.0/1\.0.*MB", captured.err)
    assert captured.out.startswith("toy/file.bin: downloaded from ")


def test_fetch_tells_of_a_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin").write_bytes(BODY[::-1])
    aside = tmp_path / "toy/file.bin.bad"
    lines = printed(capsys, "fetch", "toy", "--data", tmp_path)
    assert lines[1] == f"The earlier, damaged file is now {aside}. You can delete it."
    assert aside.read_bytes() == BODY[::-1]


def test_the_directory_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISCRIMLOSS_DATA", str(tmp_path / "environment"))
    printed(capsys, "fetch", "toy")
    assert (tmp_path / "environment/toy/file.bin").is_file()
    printed(capsys, "fetch", "toy", "--data", tmp_path / "option")
    assert (tmp_path / "option/toy/file.bin").is_file()


def test_what_is_not_ours_to_download_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = "toy-by-hand cannot be downloaded by this command: ask nicely"
    assert refused(capsys, "fetch", "toy-by-hand") == sentence
    assert refused(capsys, "fetch", "toy-by-hand", "--data", tmp_path) == sentence
    (tmp_path / "asked").touch()
    assert printed(capsys, "fetch", "toy-by-hand", "--data", tmp_path) == [
        "toy-by-hand: already there."
    ]


def test_what_is_built_in_needs_no_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "fetch", "toy-made") == [
        "toy-made: nothing to download: it is made of nothing."
    ]
    assert printed(capsys, "check", "toy-made") == [
        "toy-made can be loaded: train 5, validation 5, test 5; a regression"
    ]


@pytest.mark.parametrize("command", ["fetch", "check"])
def test_no_place_is_made_up(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, command, "toy") == (
        "name the data directory with --data DIR or in the environment variable DISCRIMLOSS_DATA"
    )


@pytest.mark.parametrize("command", ["fetch", "check"])
def test_an_unknown_dataset_lists_those_there_are(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refused(capsys, command, "toi", "--data", tmp_path)
    assert sentence.startswith("unknown dataset 'toi': did you mean 'toy'? Valid are ")
    for name in datasets.names():
        assert name in sentence


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"statuses": [404]}, "file.bin answered 404 Not Found"),
        (
            {"breaks_after": [9, 9, 9, 9]},
            "broke off after 36 of 1,024,000 bytes; 36 bytes are kept",
        ),
        ({"body": BODY[::-1]}, "file.bin sent a file with a wrong checksum, which was deleted"),
    ],
)
def test_a_failed_download_is_one_sentence(
    how: dict[str, Any],
    says: str,
    tmp_path: Path,
    server: FileServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.serve("file.bin", **({"body": BODY} | how))
    sentence = refused(capsys, "fetch", "toy", "--data", tmp_path)
    assert sentence.startswith(f"cannot download toy/file.bin: {server.address}/")
    assert says in sentence
    assert not (tmp_path / "toy/file.bin").exists()


@pytest.mark.parametrize("command", [("ls",), ("fetch", "toy"), ("check", "toy")])
def test_a_file_is_no_data_directory(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    sentence = refused(capsys, *command, "--data", tmp_path / "file")
    assert sentence == f"the data directory {tmp_path / 'file'} is not a directory"
    assert (tmp_path / "file").read_text() == "mine"


def test_ctrl_c_keeps_what_was_downloaded(
    tmp_path: Path, server: FileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "toy/file.bin.part"
    stopped = threading.Event()

    def press() -> None:
        for _ in range(1000):  # until some of it has arrived
            if part.exists() and part.stat().st_size:
                break
            stopped.wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        stopped.wait(10)

    server.serve("file.bin", BODY, in_the_middle=press)
    sentence = refused(capsys, "fetch", "toy", "--data", tmp_path, code=130)
    stopped.set()
    assert sentence == "stopped; downloaded files are kept: run the command again to continue"
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["file.bin.part"]
    kept = part.stat().st_size
    assert 0 < kept <= len(BODY) // 2

    server.serve("file.bin", BODY)
    printed(capsys, "fetch", "toy", "--data", tmp_path)
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY
    assert [request.start for request in server.requests if request.path == "file.bin"][-1] == kept


# check


def test_check_compares_and_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "fetch", "toy", "--data", tmp_path)
    (tmp_path / "toy/labels").unlink()
    assert printed(capsys, "check", "toy", "--data", tmp_path) == [
        "toy/file.bin: present",
        "toy/labels: missing, optional",
        "toy can be loaded: train 1,200, test 9; 4 classes",
        "note: 2 [files] were skipped",
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (BODY[1:], "toy/file.bin: wrong size (1,023,999 bytes instead of 1,024,000)"),
        (BODY[::-1], f"instead of {CHECKSUM})"),
    ],
)
def test_check_finds_what_is_wrong(
    body: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin").write_bytes(body)
    assert main(["data", "check", "toy", "--data", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].endswith(says)
    assert "can be loaded" not in captured.out
    assert captured.err == (
        f"discrimloss: toy differs from the published version: delete toy/file.bin in {tmp_path} "
        "and get it again\n"
    )


def test_check_says_what_the_loader_misses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refused(capsys, "check", "toy", "--data", tmp_path)
    assert sentence == f"there is no {tmp_path / 'toy/file.bin'}: fetch it"
    sentence = refused(capsys, "check", "toy", "--data", tmp_path / "nowhere")
    assert sentence == f"the data directory {tmp_path / 'nowhere'} does not exist"


def test_check_takes_the_options_of_the_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "fetch", "toy", "--data", tmp_path)
    printed(capsys, "check", "toy", "rows=7", "--data", tmp_path)
    for setting, says in {
        "rows=many": "rows must be a whole number, not 'many'",
        "rows=true": "rows must be a whole number, not True",
        "cols=7": "unknown key cols for dataset 'toy'",
        "rows": "'rows' is not a setting: write key=value",
    }.items():
        assert says in refused(capsys, "check", "toy", setting, "--data", tmp_path)


# The command line itself.


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--help"]) == 0
    overview = capsys.readouterr().out
    for command in ("ls", "fetch", "check"):
        assert command in overview
        assert main(["data", command, "--help"]) == 0
        assert "--data DIR" in capsys.readouterr().out
    assert refused(capsys) == "missing command; see `discrimloss data --help`"


def test_listing_needs_no_download_library() -> None:
    program = (
        "import sys; sys.modules['pooch'] = sys.modules['requests'] = None\n"
        "from discrimloss.cli import main; sys.exit(main(['data', 'ls']))"
    )
    source = Path(discrimloss.__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"PYTHONPATH": str(source), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")


def test_a_missing_download_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    sentence = refused(capsys, "fetch", "toy", "--data", tmp_path)
    assert sentence == "downloading needs an extra: pip install 'discrimloss[train]'"
