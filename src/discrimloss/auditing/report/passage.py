"""Removes the headers of e-mails and posts."""

from __future__ import annotations

import re

FEWEST_HEADERS = 2
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,40}:(?=\s|$)")
_BEGIN = re.compile(r"From \S+@\S+ .*\d")
"""The first line of a mail in a mailbox."""
_OF_MAIL = re.compile(
    r"(from|to|cc|subject|date|sent|lines|organization|organisation|newsgroups|message-id|path|"
    r"reply-to|received|return-path|nntp-posting-host|x-[a-z-]+|"
    r"von|an|betreff|datum|gesendet|zeilen|de|objet|asunto):",
    re.IGNORECASE,
)


def passage(text: str) -> str:
    """Return a text without the headers of an e-mail or a newsgroup post.

    Headers are at least two lines such as ``Subject: ...`` at the beginning, some of them with
    common names. They end at an empty line or the first other line. A text that has only headers is
    not changed.
    """
    lines = text.lstrip("\ufeff\r\n \t").splitlines()
    headers = known = end = 0
    if lines and _BEGIN.match(lines[0]):
        headers = known = end = 1
    for line in lines[end:]:
        is_continued = headers > 0 and line[:1] in (" ", "\t") and bool(line.strip())
        if not is_continued:
            if not _HEADER.match(line):
                break
            headers += 1
            known += bool(_OF_MAIL.match(line))
        end += 1
    rest = "\n".join(lines[end:]).strip()
    return rest if known >= FEWEST_HEADERS and rest else text
