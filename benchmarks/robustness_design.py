"""The design of the robustness benchmark: on which sets, with which labels, trained how.

Not every combination is run. Every set without known truth has two settings in common: clean labels
and 40 % symmetric noise. The settings of `VARIED` are assigned to the sets of each kind of data in
turn, so each of them occurs once with texts, once with tables and once with images. The sets with
known truth are trained on their given labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.robustness_sets import SETS, DataSet

SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Setting:
    """A setting of labels and training. The defaults are the base setting."""

    noise: str = "none"
    """``none``, ``symmetric``, ``pair``, ``one-sided``, ``instance``, or ``real``: as given."""
    rate: float = 0.0
    """The fraction of labels that are made wrong; for one-sided noise, the fraction in the largest
    class. 0 for real noise."""
    imbalance: int = 1
    """Ratio of the largest class size to the smallest, after a cut. 1 for no cut."""
    epochs: int = 20
    optimizer: str = "adamw"
    schedule: str = "cosine"

    @property
    def is_noisy(self) -> bool:
        """Whether some labels are known to be wrong."""
        return self.noise != "none"

    @property
    def labels(self) -> str:
        """Return a description of the labels."""
        kind = {"none": "clean", "real": "real noise"}.get(self.noise)
        noise = kind or f"{self.noise} {round(100 * self.rate)} %"
        return noise if self.imbalance == 1 else f"{noise}, {self.imbalance} : 1"

    @property
    def training(self) -> str:
        """Return a description of the training."""
        optimizer = {"adamw": "AdamW", "sgd": "SGD"}[self.optimizer]
        return f"{self.epochs} epochs, {optimizer}, {self.schedule}"


@dataclass(frozen=True)
class Row:
    """A set in a setting: a row of the results table."""

    set: str
    setting: Setting

    @property
    def data_set(self) -> DataSet:
        """Return the set."""
        return SETS[self.set]

    @property
    def title(self) -> str:
        """Return the title of the row, for messages and for ``--only``."""
        setting = f"{self.setting.labels}, {self.setting.training}"
        return f"{self.data_set.kind}/{self.set}: {setting}"

    def as_dict(self) -> dict[str, Any]:
        """Return all factors of the row, as they are stored."""
        return {"set": self.set, **asdict(self.setting)}

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Row:
        """Return the row that a stored line belongs to."""
        factors = {name: line[name] for name in Setting.__dataclass_fields__}
        return cls(line["set"], Setting(**factors))


COMMON = (Setting(), Setting("symmetric", 0.4))
VARIED = (
    Setting("symmetric", 0.1),
    Setting("symmetric", 0.2),
    Setting("pair", 0.1),
    Setting("pair", 0.2),
    Setting("one-sided", 0.2),
    Setting("pair", 0.4),
    Setting("instance", 0.1),
    Setting("one-sided", 0.4),
    Setting("instance", 0.2),
    Setting("instance", 0.4),
    Setting(imbalance=10),
    Setting(imbalance=100),
    Setting(imbalance=20),
    Setting("symmetric", 0.2, imbalance=10),
    Setting("symmetric", 0.2, imbalance=20),
    Setting("symmetric", 0.4, imbalance=20),
    Setting("pair", 0.2, imbalance=20),
    Setting(epochs=5, schedule="constant"),
    Setting("symmetric", 0.2, imbalance=100),
    Setting("symmetric", 0.4, epochs=2),
    Setting(epochs=2),
    Setting("symmetric", 0.2, epochs=5),
    Setting("instance", 0.2, imbalance=10),
    Setting("symmetric", 0.4, epochs=50),
    Setting(epochs=50),
    Setting("pair", 0.2, epochs=50, optimizer="sgd", schedule="constant"),
    Setting("symmetric", 0.2, optimizer="sgd"),
    Setting(optimizer="sgd", schedule="constant"),
    Setting("symmetric", 0.4, schedule="constant"),
    Setting("instance", 0.2, epochs=5, schedule="constant"),
    Setting("symmetric", 0.2, imbalance=20, epochs=50, optimizer="sgd"),
)
# In the order in which the settings are dealt: pair noise meets no set of two classes, where it is
# the same as symmetric noise, and 100 : 1 no set of a few hundred rows.
TEXTS = (
    *("agnews_7600", "stackoverflow20", "tweeteval_emotion"),
    *("airline_sentiment", "trec50", "clinc150"),
)
TABLES = (
    *("letter", "covertype", "segment", "wine_quality", "adult", "page_blocks"),
    *("yeast", "spambase", "car", "glass"),
)
IMAGES = ("usps", "sign_digits32")

REAL = (
    *("vader_tweets", "davidson_hate", "cosine_agnews_weak", "mammographic_radiologist"),
    *("wrench_youtube", "md_agreement", "banking77_corrected", "crowdtruth_treat"),
    *("vader_nyt", "wrench_trec", "hausa_news_distant", "chaosnli_snli", "crowdtruth_cause"),
)
REAL_VARIED = (
    Setting("real", epochs=2),
    Setting("real", imbalance=10),
    Setting("real", epochs=50),
    Setting("real", epochs=50, optimizer="sgd", schedule="constant"),
    Setting("real", epochs=5, schedule="constant"),
    Setting("real", optimizer="sgd"),
    Setting("real", schedule="constant"),
)

CIFAR_EPOCHS = 15
CIFAR_GRID = tuple(
    Setting("symmetric" if rate else "none", rate, imbalance, CIFAR_EPOCHS, "sgd")
    for imbalance in (10, 50)
    for rate in (0.0, 0.2, 0.4)
)
"""The settings of papers on CIFAR-10 with noisy labels and a long tail."""
CURBENCH = tuple(
    Setting("symmetric" if rate else "none", rate, imbalance, CIFAR_EPOCHS, schedule="constant")
    for rate, imbalance in ((0.0, 1), (0.4, 1), (0.0, 50))
)
"""The settings of CurBench (Zhou et al., 2024): standard, noise-0.4, imbalance-50, with AdamW at a
constant rate."""
CIFAR_REAL = Setting("real", epochs=CIFAR_EPOCHS, optimizer="sgd")


def deal(settings: Iterable[Setting], sets: Sequence[str]) -> list[Row]:
    """Return a row for each setting, with the sets in turn."""
    return [Row(sets[n % len(sets)], setting) for n, setting in enumerate(settings)]


def design() -> list[Row]:
    """Return all rows, in the order of the results table."""
    rows = []
    for sets in (TEXTS, TABLES, IMAGES):
        rows += [Row(name, setting) for name in sets for setting in COMMON]
        rows += deal(VARIED, sets)
    rows += [Row(name, Setting("real")) for name in REAL]
    rows += deal(REAL_VARIED, REAL)
    rows += [Row("cifar10", setting) for setting in CIFAR_GRID + CURBENCH]
    rows += [Row(name, CIFAR_REAL) for name in ("cifar10n_aggre", "cifar10n_worse")]
    names = list(SETS)
    return sorted(rows, key=lambda row: names.index(row.set))
