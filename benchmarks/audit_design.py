"""The design of the audit benchmark: which sets, how many rows, which wrong labels.

Not every combination is run. Every set without known truth has clean labels and 10 % symmetric
noise. The noises of `VARIED` are assigned to the sets of each kind in turn. Sets with known truth
keep their given labels. The seed determines the rows of a large set and the wrong labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

SEEDS = (1, 2, 3)
PARTS = {
    "texts": "Texts",
    "tables": "Tables",
    "images": "Images",
    "small": "50 to 500 rows",
    "real": "Real noise",
    "regression": "Regression targets",
    "aqua": "AQuA's protocol",
    "features": "Encoder features of CIFAR-10",
}
"""Parts of the page, with their titles."""
KINDS = ("texts", "tables", "features", "images", "regression")
CIFAR = ("cifar10", "cifar10n_aggre", "cifar10n_worse")


@dataclass(frozen=True)
class DataSet:
    """A set by name."""

    name: str
    kind: str
    """Kind of data, one of `KINDS`."""
    is_chosen_on: bool
    """Whether the set was used to choose changes of the audit. Other sets only report."""

    @property
    def is_cifar(self) -> bool:
        """Whether the set is CIFAR-10, which has a directory of its own."""
        return self.name in CIFAR

    def file(self, data: Path) -> Path:
        """Where the set is below the directory of data."""
        return data / self.kind / f"{self.name}.{'npz' if self.kind == 'images' else 'csv.gz'}"


def _named(kind: str, is_chosen_on: bool, names: str) -> dict[str, DataSet]:
    return {name: DataSet(name, kind, is_chosen_on) for name in names.split()}


SETS = {
    **_named("texts", True, "agnews_7600 tweeteval_emotion trec50 davidson_hate vader_nyt"),
    **_named("texts", True, "banking77_corrected crowdtruth_cause hausa_news_distant"),
    **_named("texts", True, "chaosnli_snli md_agreement"),
    **_named("texts", False, "airline_sentiment clinc150 stackoverflow20 wrench_trec"),
    **_named("texts", False, "cosine_agnews_weak crowdtruth_treat vader_tweets wrench_youtube"),
    **_named("tables", True, "adult german_credit yeast car segment hypothyroid"),
    **_named("tables", True, "mammographic_radiologist"),
    **_named("tables", False, "covertype wine_quality letter glass dermatology spambase"),
    **_named("tables", False, "page_blocks"),
    **_named("features", True, " ".join(CIFAR)),
    **_named("images", True, "usps sign_digits32"),
    **_named("regression", True, "abalone concrete energy_heating"),
    **_named("regression", False, "airfoil california_housing kin8nm"),
}


@dataclass(frozen=True)
class Row:
    """A set with some wrong labels: a row of the results."""

    part: str
    """Part of the page, one of `PARTS`."""
    set: str
    rows: int
    """Maximum number of samples that are drawn."""
    noise: str
    """``none``, ``symmetric``, ``pair``, ``instance``, ``class`` or ``real`` (labels as given)."""
    rate: float = 0.0
    """The fraction of labels that are made wrong; 0 for real noise."""

    @property
    def data_set(self) -> DataSet:
        """Return the set."""
        return SETS[self.set]

    @property
    def labels(self) -> str:
        """Return a description of the labels."""
        words = {"none": "clean", "real": "as given"}.get(self.noise)
        return words or f"{self.noise} {round(100 * self.rate)} %"

    @property
    def title(self) -> str:
        """Return the title of the row, for messages and for ``--only``."""
        return f"{self.part}/{self.set}, {self.rows} rows, {self.labels}"

    def as_dict(self) -> dict[str, Any]:
        """Return all factors of the row, as they are stored."""
        return asdict(self)

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Row:
        """Return the row that a stored line belongs to."""
        return cls(**{name: line[name] for name in cls.__dataclass_fields__})


Noise = tuple[str, float]
COMMON: tuple[Noise, ...] = (("symmetric", 0.1), ("none", 0.0))
VARIED: tuple[Noise, ...] = (
    ("symmetric", 0.2),
    ("pair", 0.2),
    ("symmetric", 0.05),
    ("instance", 0.2),
    ("symmetric", 0.02),
    ("pair", 0.1),
    ("symmetric", 0.4),
    ("instance", 0.1),
    ("symmetric", 0.01),
    ("pair", 0.05),
    ("instance", 0.4),
    ("pair", 0.4),
)
# In the order in which noises are dealt: pair noise meets no set of two classes, where it is the
# same as symmetric noise.
TEXTS = (
    *("agnews_7600", "stackoverflow20", "airline_sentiment"),
    *("tweeteval_emotion", "clinc150", "trec50"),
)
TABLES = (
    *("adult", "segment", "spambase", "covertype", "german_credit", "wine_quality", "yeast"),
    *("page_blocks", "dermatology", "car", "hypothyroid", "letter"),
)
SMALL = ("agnews_7600", "airline_sentiment", "segment", "adult", "dermatology", "glass")
SIZES = (50, 100, 200, 500)
SMALL_PER_TURN = 4
SMALL_NOISE: tuple[Noise, ...] = (("symmetric", 0.1), ("pair", 0.2), ("none", 0.0))
REGRESSION = (
    *("abalone", "airfoil", "concrete", "california_housing", "energy_heating", "kin8nm"),
)
REGRESSION_RATES = (0.05, 0.2, 0.02, 0.4, 0.01, 0.2)
REAL = (
    *("davidson_hate", "wrench_youtube", "mammographic_radiologist", "vader_tweets"),
    *("md_agreement", "cosine_agnews_weak", "crowdtruth_cause", "crowdtruth_treat", "vader_nyt"),
    *("banking77_corrected", "wrench_trec", "hausa_news_distant", "chaosnli_snli"),
)
CIFAR_NOISE: tuple[Noise, ...] = (
    *(("symmetric", 0.1), ("pair", 0.2), ("instance", 0.2), ("symmetric", 0.4), ("none", 0.0)),
)
AQUA_NOISE = ("symmetric", "pair", "class", "instance")
"""AQuA calls the first two uniform and asymmetric."""
MOST, MOST_IMAGES, MOST_REGRESSION = 1_000, 500, 500


def deal(part: str, noises: Iterable[Noise], sets: Sequence[str], rows: int) -> list[Row]:
    """Return a row for each noise, with the sets in turn."""
    return [Row(part, sets[n % len(sets)], rows, *noise) for n, noise in enumerate(noises)]


def of_all(part: str, noises: Iterable[Noise], sets: Iterable[str], rows: int) -> list[Row]:
    """Return a row for each noise and each set."""
    return [Row(part, name, rows, *noise) for noise in noises for name in sets]


def design() -> list[Row]:
    """Return all rows, part by part. Rows with wrong labels come first: they show more."""
    rates = [("symmetric", rate) for rate in REGRESSION_RATES]
    real_cifar = [Row("features", name, MOST, "real") for name in CIFAR[1:]]
    return [
        *deal("texts", VARIED, TEXTS, MOST),
        *of_all("texts", COMMON, TEXTS, MOST),
        *deal("tables", VARIED, TABLES, MOST),
        *of_all("tables", COMMON, TABLES, MOST),
        *of_all("images", COMMON, ("usps", "sign_digits32"), MOST_IMAGES),
        *(
            Row("small", name, rows, *noise)
            for noise, name, rows in product(SMALL_NOISE, SMALL, SIZES)
        ),
        *of_all("real", [("real", 0.0)], REAL, MOST),
        *deal("regression", rates, REGRESSION, MOST_REGRESSION),
        *of_all("regression", COMMON, REGRESSION, MOST_REGRESSION),
        *(
            Row("aqua", name, MOST, noise, rate)
            for rate in (0.1, 0.4)
            for noise in AQUA_NOISE
            for name in ("car", "adult")
        ),
        *real_cifar,
        *of_all("features", CIFAR_NOISE, CIFAR[:1], MOST),
    ]


def in_turns(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with the parts in turn, so that a stopped program has results of each part.

    A turn has several small rows, because they take little time. Rows with clean labels are spread
    evenly among the other rows of their part.
    """
    by_part: dict[str, list[Row]] = {}
    for row in rows:
        by_part.setdefault(row.part, []).append(row)
    turns = []
    for part, listed in by_part.items():
        own = spread(listed)
        number = SMALL_PER_TURN if part == "small" else 1
        turns.append([own[start : start + number] for start in range(0, len(own), number)])
    return [row for turn in zip_longest(*turns, fillvalue=[]) for some in turn for row in some]


def spread(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, with clean ones spread evenly. Clean and other rows keep their order."""
    clean = [row for row in rows if row.noise == "none"]
    noisy = [row for row in rows if row.noise != "none"]
    placed = [((place + 0.5) / len(noisy), row) for place, row in enumerate(noisy)]
    placed += [(place / len(clean) + 0.5 / len(clean), row) for place, row in enumerate(clean)]
    return [row for _, row in sorted(placed, key=lambda one: one[0])]
