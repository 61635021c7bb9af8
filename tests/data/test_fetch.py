"""Fetching files from a server on this machine, which can be as bad as real ones."""

import errno
import hashlib
import io
import os
import re
import shutil
import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from file_server import FileServer, Request, file_server
from hypothesis import given
from hypothesis import strategies as st

from discrimloss.data import DataError, datasets
from discrimloss.data.download import MirrorError, ResumingDownloader
from discrimloss.data.fetch import Fetched, fetch, unpack
from discrimloss.data.published_files import (
    BuiltIn,
    ByHand,
    Download,
    KnownFile,
    RemoteFile,
    State,
    check_file,
    check_files,
    how_obtained,
    in_folder,
    obtained,
)

BODY = bytes(i * i % 251 for i in range(300_000))
OTHER = BODY[::-1]


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as server:
        yield server


def remote(*urls: str, body: bytes = BODY, path: str = "toy/file.bin", **known: Any) -> Download:
    given = {"size": len(body), "checksum": sha256(body)} | known
    return Download((RemoteFile(path, urls=urls, **given),))


def fetched(download: Download, directory: Path, **options: Any) -> list[Fetched]:
    return list(fetch(download, directory, **({"wait": lambda seconds: None} | options)))


def refused(download: Download, directory: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        fetched(download, directory, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def names(directory: Path) -> list[str]:
    return sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )


# A download that goes well.


def test_a_file_is_downloaded_verified_and_named_last(server: FileServer, tmp_path: Path) -> None:
    url = server.serve("file.bin", BODY)
    seen: list[tuple[str, int, int | None]] = []
    during: set[str] = set()

    def on_progress(name: str, done: int, total: int | None) -> None:
        seen.append((name, done, total))
        during.update(names(tmp_path))

    assert fetched(remote(url), tmp_path / "new", on_progress=on_progress) == [
        Fetched("toy/file.bin", url)
    ]
    assert (tmp_path / "new/toy/file.bin").read_bytes() == BODY
    assert names(tmp_path) == ["new/toy/file.bin"]
    assert "new/toy/file.bin" not in during
    assert "new/toy/file.bin.part" in during
    assert seen[0] == ("file.bin", 0, len(BODY))
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_second_fetch_asks_for_nothing(server: FileServer, tmp_path: Path) -> None:
    download = remote(server.serve("file.bin", BODY))
    fetched(download, tmp_path)
    server.requests.clear()
    assert fetched(download, tmp_path) == [Fetched("toy/file.bin", None)]
    assert server.requests == []


def test_an_alternative_form_is_as_good(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(OTHER)
    plain = (KnownFile("plain", len(OTHER), sha256(OTHER)),)
    download = remote(server.serve("file.bin", BODY), alternatives=(plain,))
    assert fetched(download, tmp_path) == [Fetched("plain", None)]
    (tmp_path / "plain").write_bytes(BODY)  # of the right size, but wrong
    assert fetched(download, tmp_path)[0].url is not None


def test_without_a_published_checksum_it_says_what_it_got(
    server: FileServer, tmp_path: Path
) -> None:
    download = remote(server.serve("file.bin", BODY), checksum=None, size=None)
    for url in (download.files[0].urls[0], None):
        assert fetched(download, tmp_path) == [Fetched("toy/file.bin", url, sha256(BODY))]


def test_md5_is_a_checksum_too(server: FileServer, tmp_path: Path) -> None:
    url = server.serve("file.bin", BODY)
    right = f"md5:{hashlib.md5(BODY).hexdigest()}"
    assert "wrong checksum" in refused(remote(url, checksum="md5:" + 32 * "0"), tmp_path)
    assert fetched(remote(url, checksum=right), tmp_path)[0].url == url


# A download that was broken off.


def test_only_the_missing_bytes_are_asked_for(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin.part").write_bytes(BODY[:123_456])
    fetched(remote(server.serve("file.bin", BODY)), tmp_path)
    assert server.requests == [Request("file.bin", 123_456, len(BODY) - 123_456)]
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY
    assert names(tmp_path) == ["toy/file.bin"]


def test_a_broken_connection_is_taken_up_again_later_and_later(
    server: FileServer, tmp_path: Path
) -> None:
    waited: list[float] = []
    url = server.serve("file.bin", BODY, breaks_after=[1000, 5, 100_000])
    fetched(remote(url), tmp_path, wait=waited.append)
    assert [request.start for request in server.requests] == [0, 1000, 1005, 101_005]
    assert waited == [1.0, 2.0, 4.0]
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


def test_a_truncated_file_keeps_its_part_but_not_its_name(
    server: FileServer, tmp_path: Path
) -> None:
    url = server.serve("file.bin", BODY, breaks_after=[1000, 0, 0, 0])
    sentence = refused(remote(url), tmp_path)
    assert f"{url} broke off after 1,000 of 300,000 bytes; 1,000 bytes are kept" in sentence
    assert names(tmp_path) == ["toy/file.bin.part"]
    fetched(remote(url), tmp_path)
    assert server.requests[-1] == Request("file.bin", 1000, len(BODY) - 1000)


def test_a_server_that_ignores_ranges_starts_over(server: FileServer, tmp_path: Path) -> None:
    url = server.serve("file.bin", BODY, honours_range=False, breaks_after=[200_000])
    fetched(remote(url), tmp_path)
    assert [request.sent for request in server.requests] == [200_000, len(BODY)]
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


def test_a_server_that_misplaces_ranges_starts_over(server: FileServer, tmp_path: Path) -> None:
    url = server.serve("file.bin", BODY, misplaces_ranges=True, breaks_after=[1000])
    fetched(remote(url), tmp_path)
    assert [request.start for request in server.requests] == [0, 999, 0]
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


def test_a_file_arrives_as_it_is_published(server: FileServer, tmp_path: Path) -> None:
    fetched(remote(server.serve("file.bin", BODY, compresses=True)), tmp_path)
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


@pytest.mark.parametrize("size", [len(BODY), None])
def test_a_complete_part_is_only_verified(
    size: int | None, server: FileServer, tmp_path: Path
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin.part").write_bytes(BODY)
    fetched(remote(server.serve("file.bin", BODY), size=size), tmp_path)
    assert sum(request.sent for request in server.requests) == 0
    assert names(tmp_path) == ["toy/file.bin"]


@pytest.mark.parametrize("part", [OTHER[:1000], OTHER, OTHER + OTHER], ids=len)
@pytest.mark.parametrize("size", [len(BODY), None])
def test_a_part_of_another_file_does_no_harm(
    part: bytes, size: int | None, server: FileServer, tmp_path: Path
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin.part").write_bytes(part)
    fetched(remote(server.serve("file.bin", BODY), size=size), tmp_path)
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY
    assert names(tmp_path) == ["toy/file.bin"]


def test_without_a_checksum_nothing_old_is_used(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin.part").write_bytes(OTHER[:1000])
    fetched(remote(server.serve("file.bin", BODY), checksum=None), tmp_path)
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


def test_stopping_keeps_the_part(server: FileServer, tmp_path: Path) -> None:
    def stop(name: str, done: int, total: int | None) -> None:
        if done > 100_000:
            raise KeyboardInterrupt

    download = remote(server.serve("file.bin", BODY))
    with pytest.raises(KeyboardInterrupt):
        fetched(download, tmp_path, on_progress=stop)
    assert names(tmp_path) == ["toy/file.bin.part"]
    kept = (tmp_path / "toy/file.bin.part").read_bytes()
    assert 100_000 < len(kept) < len(BODY)
    assert BODY.startswith(kept)
    fetched(download, tmp_path)
    assert server.requests[-1] == Request("file.bin", len(kept), len(BODY) - len(kept))
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


@given(
    breaks=st.lists(st.integers(0, 1200) | st.none(), max_size=6),
    honours_range=st.booleans(),
    says_length=st.booleans(),
    old=st.binary(max_size=3) | st.integers(0, 1000).map(lambda n: BODY[:n]),
)
def test_whatever_happens_a_file_is_right_or_not_there(
    breaks: list[int | None], honours_range: bool, says_length: bool, old: bytes
) -> None:
    body = BODY[:1000]
    with file_server() as server, TemporaryDirectory() as directory:
        url = server.serve(
            "f",
            body,
            breaks_after=list(breaks),
            honours_range=honours_range,
            says_length=says_length,
        )
        Path(directory, "f.part").write_bytes(old)
        download = remote(url, body=body, path="f")
        for _ in range(4):  # each call uses up at least one of the breaks, unless it succeeds
            try:
                fetched(download, Path(directory))
            except DataError:
                assert set(names(Path(directory))) <= {"f.part"}
            else:
                break
        assert names(Path(directory)) == ["f"]
        assert Path(directory, "f").read_bytes() == body


# Servers that do not have it.


def test_mirrors_are_tried_in_order(server: FileServer, tmp_path: Path) -> None:
    urls = [
        f"{server.address}/nowhere",
        server.serve("corrupt", OTHER),
        server.serve("short", BODY[:-1]),
        server.serve("good", BODY),
        server.serve("unneeded", BODY),
    ]
    assert fetched(remote(*urls), tmp_path) == [Fetched("toy/file.bin", urls[3])]
    assert [request.path for request in server.requests] == ["nowhere", "corrupt", "short", "good"]
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY


def test_a_part_from_one_mirror_is_continued_at_the_next(
    server: FileServer, tmp_path: Path
) -> None:
    urls = [server.serve("a", BODY, breaks_after=[1000, 0, 0, 0]), server.serve("b", BODY)]
    assert fetched(remote(*urls), tmp_path)[0].url == urls[1]
    assert server.requests[-1] == Request("b", 1000, len(BODY) - 1000)


def test_nothing_anywhere_says_what_was_tried(server: FileServer, tmp_path: Path) -> None:
    urls = [f"{server.address}/a", f"{server.address}/b"]
    assert refused(remote(*urls), tmp_path) == (
        f"cannot download toy/file.bin: {urls[0]} answered 404 Not Found, "
        f"{urls[1]} answered 404 Not Found"
    )
    assert len(server.requests) == 2  # what is not there now will not be there in a second
    assert names(tmp_path) == []


def test_a_passing_fault_is_waited_for(server: FileServer, tmp_path: Path) -> None:
    url = server.serve("file.bin", BODY, statuses=[503, 429, 200])
    assert fetched(remote(url), tmp_path)[0].url == url
    url = server.serve("file.bin", BODY, statuses=[503] * 9)
    assert "answered 503" in refused(remote(url, path="another"), tmp_path)


def test_no_network_is_told(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        assert refused(remote(url), tmp_path).endswith(f": {url} cannot be reached")
    assert names(tmp_path) == []


def test_a_corrupted_file_is_not_left(server: FileServer, tmp_path: Path) -> None:
    sentence = refused(remote(server.serve("file.bin", OTHER)), tmp_path)
    assert sentence.endswith("/file.bin sent a file with a wrong checksum, which was deleted")
    assert names(tmp_path) == []


def test_a_file_of_another_size_is_not_even_downloaded(server: FileServer, tmp_path: Path) -> None:
    sentence = refused(remote(server.serve("file.bin", BODY + b"!")), tmp_path)
    assert "has 300,001 bytes instead of 300,000" in sentence
    assert names(tmp_path) == []


def test_a_server_that_never_stops_is_stopped(server: FileServer, tmp_path: Path) -> None:
    url = server.serve("file.bin", 5 * BODY, says_length=False)
    assert "sends more than 300,000 bytes" in refused(remote(url), tmp_path)


def test_a_wrong_file_of_this_name_is_set_aside(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin").write_bytes(OTHER)
    aside = fetched(remote(server.serve("file.bin", BODY)), tmp_path)[0].set_aside
    assert aside == (tmp_path / "toy/file.bin.bad",)
    assert (tmp_path / "toy/file.bin").read_bytes() == BODY
    assert (tmp_path / "toy/file.bin.bad").read_bytes() == OTHER


# A disk that does not take it.


def test_a_disk_without_room_is_told_before_anything_is_asked(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    sentence = refused(remote(server.serve("file.bin", BODY), size=12_345_678), tmp_path)
    assert sentence.startswith("toy/file.bin needs 12 MB and ")
    assert "has 1 MB left" in sentence
    assert server.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_becomes_full_is_told(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/file.bin.part").symlink_to("/dev/full")
    sentence = refused(remote(server.serve("file.bin", BODY)), tmp_path)
    assert sentence == (
        f"cannot write to {tmp_path} (no space left on device): "
        "free some space and run the command again to continue"
    )


def test_a_directory_that_cannot_be_written_to_is_told_before_anything_is_asked(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The superuser may write everywhere, so that permissions alone would not do.
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("discrimloss.data.fetch.TemporaryFile", refuse)
    sentence = refused(remote(server.serve("file.bin", BODY)), tmp_path)
    assert sentence == (
        f"cannot write to {tmp_path} (permission denied): choose a data directory that you can "
        "write to"
    )
    assert server.requests == []


def test_a_file_is_no_data_directory(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    sentence = refused(remote(server.serve("file.bin", BODY)), tmp_path / "file")
    assert sentence.startswith(f"cannot write to {tmp_path / 'file'} (")
    assert (tmp_path / "file").read_text() == "mine"


# Archives.


CONTENTS = {"toy/a.bin": BODY[:5000], "toy/deep/b.bin": OTHER[:7000]}


def tar_gz(contents: dict[str, bytes], edit: Callable[[tarfile.TarInfo], None] = id) -> bytes:  # type: ignore[assignment]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, body in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            edit(entry)
            tar.addfile(entry, io.BytesIO(body))
    return stream.getvalue()


def archived(url: str, archive: bytes, contents: dict[str, bytes] = CONTENTS) -> Download:
    known = tuple(KnownFile(path, len(body), sha256(body)) for path, body in contents.items())
    return remote(url, body=archive, path="toy.tar.gz", contents=known)


def test_an_archive_is_unpacked_and_then_gone(server: FileServer, tmp_path: Path) -> None:
    archive = tar_gz(CONTENTS | {"toy/readme.html": b"hello"})
    download = archived(server.serve("toy.tar.gz", archive), archive)
    fetched(download, tmp_path)
    assert names(tmp_path) == ["toy/a.bin", "toy/deep/b.bin", "toy/readme.html"]
    for path, body in CONTENTS.items():
        assert (tmp_path / path).read_bytes() == body
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy"]
    server.requests.clear()
    assert fetched(download, tmp_path) == [Fetched("toy", None)]
    assert server.requests == []


def test_an_archive_that_is_there_is_used_and_kept(server: FileServer, tmp_path: Path) -> None:
    archive = tar_gz(CONTENTS)
    (tmp_path / "toy.tar.gz").write_bytes(archive)
    assert fetched(archived("http://127.0.0.1/not-asked", archive), tmp_path)[0].url is None
    assert names(tmp_path) == ["toy.tar.gz", *CONTENTS]


def test_files_that_are_there_are_never_overwritten(server: FileServer, tmp_path: Path) -> None:
    archive = tar_gz(CONTENTS | {"toy/readme.html": b"hello"})
    mine = {"toy/a.bin": b"wrong", "toy/readme.html": b"mine", "toy/notes.txt": b"mine"}
    (tmp_path / "toy").mkdir()
    for path, body in mine.items():
        (tmp_path / path).write_bytes(body)
    download = archived(server.serve("toy.tar.gz", archive), archive)
    assert fetched(download, tmp_path)[0].set_aside == (tmp_path / "toy/a.bin.bad",)
    expected = CONTENTS | {
        "toy/a.bin.bad": b"wrong",
        "toy/notes.txt": b"mine",
        "toy/readme.html": b"mine",
    }
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == expected


def to_link(entry: tarfile.TarInfo) -> None:
    if entry.name.endswith("link"):
        entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, "../../outside", 0


@pytest.mark.parametrize("name", ["../evil", "toy/../../evil", "toy/link"])
def test_an_unsafe_entry_is_refused_and_nothing_is_left(
    name: str, server: FileServer, tmp_path: Path
) -> None:
    archive = tar_gz(CONTENTS | {name: b"evil"}, to_link)
    directory = tmp_path / "data"
    download = archived(server.serve("toy.tar.gz", archive), archive)
    assert "holds an unsafe entry" in refused(download, directory)
    assert names(tmp_path) == ["data/toy.tar.gz"]
    assert [path.name for path in directory.iterdir()] == ["toy.tar.gz"]


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        (tar_gz(CONTENTS)[:-3000], "cannot be unpacked"),
        (b"<html>please log in</html>", "cannot be unpacked"),
        (tar_gz({"toy/a.bin": BODY[:5000]}), "toy/deep/b.bin: missing"),
        (tar_gz(CONTENTS | {"toy/a.bin": b"other"}), "toy/a.bin: wrong size"),
        (tar_gz(CONTENTS | {"toy/a.bin": OTHER[:5000]}), "toy/a.bin: wrong checksum"),
    ],
)
def test_an_archive_with_other_contents_leaves_nothing(
    archive: bytes, says: str, tmp_path: Path
) -> None:
    (tmp_path / "toy.tar.gz").write_bytes(archive)
    with pytest.raises(DataError, match=says):
        unpack(tmp_path / "toy.tar.gz", tmp_path, archived("", archive).files[0].contents)
    assert [path.name for path in tmp_path.iterdir()] == ["toy.tar.gz"]


# Checking.


def test_every_state_of_a_file(tmp_path: Path) -> None:
    known = KnownFile("a", len(BODY), sha256(BODY))
    assert check_file(known, tmp_path).state is State.MISSING
    (tmp_path / "a").write_bytes(BODY[1:])
    assert str(check_file(known, tmp_path)) == "a: wrong size (299,999 bytes instead of 300,000)"
    (tmp_path / "a").write_bytes(OTHER)
    found = check_file(known, tmp_path)
    assert str(found) == f"a: wrong checksum ({sha256(OTHER)} instead of {sha256(BODY)})"
    assert found.is_wrong
    assert check_file(known, tmp_path, read=False).state is State.PRESENT
    (tmp_path / "a").write_bytes(BODY)
    assert str(check_file(known, tmp_path)) == "a: present"
    told = str(check_file(KnownFile("a"), tmp_path))
    assert told == (f"a: present (there is no published checksum; 300,000 bytes, {sha256(BODY)})")
    (tmp_path / "folder").mkdir()
    assert str(check_file(KnownFile("folder"), tmp_path)) == "folder: present"
    assert str(check_file(KnownFile("folder", 3), tmp_path)) == "folder: missing"


def test_the_form_that_is_there_is_checked(tmp_path: Path) -> None:
    forms = ((KnownFile("a"), KnownFile("b")), (KnownFile("c"), KnownFile("d")))
    for how in (
        ByHand("ask", forms),
        Download((RemoteFile("x.tar.gz", contents=forms[0], alternatives=forms[1:]),)),
    ):
        (tmp_path / "d").unlink(missing_ok=True)
        assert [file.path for file in check_files(how, tmp_path)] == ["a", "b"]
        (tmp_path / "d").touch()
        states = {file.path: file.state for file in check_files(how, tmp_path)}
        assert states == {"c": State.MISSING, "d": State.PRESENT}
        for name in "abc":
            (tmp_path / name).touch()
        assert [file.path for file in check_files(how, tmp_path)] == ["a", "b", "c", "d"]
        for name in "abc":
            (tmp_path / name).unlink()
    assert check_files(BuiltIn("made here"), tmp_path) == []


def test_files_are_placed_in_folders() -> None:
    file = KnownFile("a.bin", 3, "md5:0")
    assert in_folder("x/y", [file]) == (KnownFile("x/y/a.bin", 3, "md5:0"),)
    assert in_folder(".", [file]) == (file,)


def test_a_loader_that_says_nothing_is_got_by_hand() -> None:
    def load(directory: Path) -> None: ...

    assert isinstance(how_obtained(load), ByHand)
    assert how_obtained(obtained(BuiltIn("made here"))(load)) == BuiltIn("made here")


def test_a_downloader_alone_says_why(server: FileServer, tmp_path: Path) -> None:
    downloader = ResumingDownloader(tmp_path / "x.part", wait=lambda seconds: None)
    with pytest.raises(MirrorError, match="answered 404"):
        downloader(f"{server.address}/x", str(tmp_path / "x"))


# The datasets of the project.


@pytest.mark.parametrize("name", datasets.names())
def test_every_dataset_says_how_it_is_obtained(name: str, tmp_path: Path) -> None:
    loader = datasets.get(name)
    assert hasattr(loader, "obtained_by")
    how = how_obtained(loader)
    files = check_files(how, tmp_path)
    assert all(file.state is State.MISSING for file in files)
    assert bool(files) != isinstance(how, BuiltIn)
    if isinstance(how, Download):
        for file in how.files:
            assert file.urls
            assert all(url.startswith("https://") for url in file.urls)
            assert file.checksum or file.optional
        known = [known for file in how.files for form in (*file.forms, (file,)) for known in form]
        sums = [file.checksum for file in known if file.checksum]
        assert all(re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", found) for found in sums)
        assert not any(Path(file.path).is_absolute() or ".." in file.path for file in known)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_real_files_have_the_known_checksums(name: str) -> None:
    directory = Path(os.environ.get("DISCRIMLOSS_DATA", "nowhere"))
    files = check_files(how_obtained(datasets.get(name)), directory)
    required = [file for file in files if not file.optional]
    if all(file.state is State.MISSING for file in required):
        pytest.skip(f"{name} is not in DISCRIMLOSS_DATA")
    assert {str(file) for file in required if file.state is not State.PRESENT} == set()
