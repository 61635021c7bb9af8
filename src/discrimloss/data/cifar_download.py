"""Where CIFAR-10, CIFAR-100 and the human labels for them are published."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from discrimloss.data import cifar_n
from discrimloss.data.cifar_files import CifarRelease
from discrimloss.data.layout import Layout
from discrimloss.data.obtain import Download, KnownFile, RemoteFile, in_folder

PUBLISHER = "https://www.cs.toronto.edu/~kriz/"
HUMAN_LABELS_PUBLISHER = "https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/"
TERMS = (
    "whoever publishes results with CIFAR is asked to cite Krizhevsky (2009); the human labels, "
    "CIFAR-N, are CC BY-NC 4.0: not for commercial use."
)


def cifar_download(
    release: CifarRelease,
    archive: KnownFile,
    binary: Iterable[KnownFile],
    python: Iterable[KnownFile],
) -> Download:
    """The binary version of a dataset; its python version does as well.

    Args:
        release: which of the two datasets.
        archive: the binary version as it is published.
        binary: the files in it, without their folder.
        python: the files of the python version, likewise.
    """
    first, *others = (*_placed(release.binary, binary), *_placed(release.python, python))
    images = RemoteFile(
        archive.path,
        archive.size,
        archive.checksum,
        urls=(PUBLISHER + archive.path,),
        contents=first,
        alternatives=tuple(others),
    )
    return Download((images, _human_labels(release.name)), TERMS)


def _placed(layout: Layout, files: Iterable[KnownFile]) -> list[tuple[KnownFile, ...]]:
    files = tuple(files)
    return [in_folder(folder, files) for folder in layout.folders]


def _human_labels(dataset: str) -> RemoteFile:
    """The publisher gives no checksum: the loader compares the clean labels in the file instead."""
    name = cifar_n.FILES[dataset]
    published = f"{name}.pt"
    places = [
        in_folder(folder, [KnownFile(f"{name}{ending}")])
        for folder, ending in product(cifar_n.FOLDERS, cifar_n.ENDINGS)
    ]
    path = f"{cifar_n.FOLDERS[0]}/{published}"
    return RemoteFile(
        path,
        urls=(HUMAN_LABELS_PUBLISHER + published,),
        alternatives=tuple(form for form in places if form[0].path != path),
        optional=True,
    )
