"""The frame for cleanlab: what it holds, and that cleanlab's own functions take it."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from made_verdicts import make_verdicts, one_of_each
from torch import nn
from torch.nn import functional

from discrimloss import DiscrimLoss, Verdicts

pandas = pytest.importorskip("pandas")
cleanlab = pytest.importorskip("cleanlab")
sklearn_datasets = pytest.importorskip("sklearn.datasets")
linear_model = pytest.importorskip("sklearn.linear_model")
classification = pytest.importorskip("cleanlab.classification")
regression = pytest.importorskip("cleanlab.regression.learn")
# Datalab needs Hugging Face's datasets, which cleanlab does not bring along.
pytest.importorskip("datasets")
issue_managers = pytest.importorskip("cleanlab.datalab.internal.issue_manager_factory")

# What it holds.


def test_each_column_by_hand() -> None:
    frame = one_of_each().to_cleanlab([4, 5, 6, 7, 8], predicted_label=[4, 5, 5, 9, 8])
    assert list(frame.columns) == [
        "is_label_issue",
        "label_score",
        "given_label",
        "predicted_label",
    ]
    assert frame["is_label_issue"].tolist() == [False, False, False, True, False]
    # Low is bad; nothing is known against the third sample, which is unseen.
    assert frame["label_score"].tolist() == [0.75, 1.0, 1.0, 0.25, 1.0]
    assert frame["given_label"].tolist() == [4, 5, 6, 7, 8]
    assert frame["predicted_label"].tolist() == [4, 5, 5, 9, 8]


def test_what_is_an_issue_follows_the_verdict_and_not_the_probability() -> None:
    verdicts = make_verdicts(["incorrect", "hard"], [0.1, 0.9], rule="threshold")
    assert verdicts.to_cleanlab([0, 1])["is_label_issue"].tolist() == [True, False]


def test_without_predictions_there_is_no_such_column() -> None:
    assert "predicted_label" not in one_of_each().to_cleanlab(np.arange(5)).columns


@pytest.mark.parametrize("name", ["given_label", "predicted_label"])
@pytest.mark.parametrize("labels", [[1, 2, 3, 4], np.zeros((5, 2)), 3])
def test_one_label_for_each_sample(name: str, labels: Any) -> None:
    arguments = {"given_label": np.arange(5), name: labels}
    with pytest.raises(ValueError, match=f"{name} must have one value for each of the 5 samples"):
        one_of_each().to_cleanlab(**arguments)


GIVEN = {
    "positions": np.repeat([0, 1, 2], 30),
    "names": np.repeat(["ant", "bee", "cat"], 30),
    "numbers": np.linspace(-1.0, 1.0, 90),
}


def datalabs_own_frame(given: npt.NDArray[Any]) -> Any:
    """What Datalab itself finds, asked with predictions of which four contradict the label."""
    if given.dtype.kind == "f":
        lab = cleanlab.Datalab({"y": given}, label_name="y", task="regression", verbosity=0)
        lab.find_issues(pred_probs=given[::-1].copy(), issue_types={"label": {}})
    else:
        position = np.unique(given, return_inverse=True)[1]
        probabilities = np.where(np.arange(3) == position[:, None], 0.8, 0.1)
        probabilities[:4] = [0.1, 0.1, 0.8]
        lab = cleanlab.Datalab({"y": given.tolist()}, label_name="y", verbosity=0)
        lab.find_issues(pred_probs=probabilities, issue_types={"label": {}})
    return lab.get_issues("label")


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("container", [np.asarray, list, pandas.Series])
def test_columns_types_and_index_are_datalabs(kind: str, container: Any) -> None:
    theirs = datalabs_own_frame(GIVEN[kind])
    verdicts = make_verdicts(["easy"] * 90, [0.0] * 90)
    ours = verdicts.to_cleanlab(container(GIVEN[kind]), container(GIVEN[kind]))
    pandas.testing.assert_series_equal(ours.dtypes, theirs.dtypes)
    pandas.testing.assert_index_equal(ours.index, theirs.index)
    assert ours["given_label"].tolist() == theirs["given_label"].tolist()


def test_tensors_are_taken_too() -> None:
    frame = one_of_each().to_cleanlab(torch.arange(5), torch.arange(5.0, requires_grad=True))
    assert frame["given_label"].tolist() == [0, 1, 2, 3, 4]
    assert frame["predicted_label"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


# What cleanlab makes of it.


class NoisyDigits(NamedTuple):
    x: npt.NDArray[np.float32]
    given: npt.NDArray[np.int64]
    clean: npt.NDArray[np.int64]
    verdicts: Verdicts
    predicted: npt.NDArray[np.int64]


@pytest.fixture(scope="module")
def digits() -> NoisyDigits:
    """A thousand digits, three in ten with a wrong label, and a short training run on them."""
    x, clean = sklearn_datasets.load_digits(return_X_y=True)
    x, clean = x[:1000].astype(np.float32) / 16.0, clean[:1000].astype(np.int64)
    generator = np.random.default_rng(0)
    given = clean.copy()
    wrong = generator.permutation(1000)[:300]
    given[wrong] = (given[wrong] + generator.integers(1, 10, 300)) % 10
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = DiscrimLoss(1000, epochs=15)
    inputs, target = torch.from_numpy(x), torch.from_numpy(given)
    for epoch in range(1, 16):
        criterion.set_epoch(epoch)
        for index in torch.randperm(1000).split(50):
            losses = functional.cross_entropy(model(inputs[index]), target[index], reduction="none")
            optimizer.zero_grad()
            criterion(losses, index).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = model(inputs).argmax(dim=1).numpy()
    return NoisyDigits(x, given, clean, criterion.verdicts(), predicted)


def test_clean_learning_trains_on_what_we_do_not_call_incorrect(digits: NoisyDigits) -> None:
    frame = digits.verdicts.to_cleanlab(digits.given, digits.predicted)
    keep = digits.verdicts.label != "incorrect"
    assert 200 < (~keep).sum() < 400  # there is something to drop

    cleaned = classification.CleanLearning(linear_model.LogisticRegression(max_iter=500))
    cleaned.fit(digits.x, digits.given, label_issues=frame)
    by_hand = linear_model.LogisticRegression(max_iter=500).fit(digits.x[keep], digits.given[keep])
    np.testing.assert_array_equal(cleaned.clf.coef_, by_hand.coef_)
    pandas.testing.assert_frame_equal(cleaned.get_label_issues(), frame)

    plain = linear_model.LogisticRegression(max_iter=500).fit(digits.x, digits.given)
    assert cleaned.score(digits.x, digits.clean) > plain.score(digits.x, digits.clean) + 0.02


def test_clean_learning_sees_that_the_frame_belongs_to_other_labels(digits: NoisyDigits) -> None:
    frame = digits.verdicts.to_cleanlab(digits.clean)
    with pytest.raises(ValueError, match="labels must match"):
        classification.CleanLearning(linear_model.LogisticRegression()).fit(
            digits.x, digits.given, label_issues=frame
        )


def test_clean_learning_for_regression_takes_it_too() -> None:
    x = np.arange(20.0)[:, None]
    given = 3.0 * x[:, 0] + 1.0
    given[[4, 11]] += 50.0
    labels = ["incorrect" if i in (4, 11) else "easy" for i in range(20)]
    verdicts = make_verdicts(labels, [0.9 if label == "incorrect" else 0.0 for label in labels])
    cleaned = regression.CleanLearning(linear_model.LinearRegression())
    cleaned.fit(x, given, label_issues=verdicts.to_cleanlab(given))
    np.testing.assert_allclose(cleaned.predict(x), 3.0 * x[:, 0] + 1.0)  # both outliers are gone


def test_datalab_reports_it(
    digits: NoisyDigits, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class FromVerdicts(issue_managers.IssueManager):  # type: ignore[misc]
        """Datalab's own way to take issues from elsewhere, in the place of its label issues."""

        description = "labels that a training run calls incorrect"
        issue_name = "label"

        def find_issues(self, frame: Any, **_: Any) -> None:
            self.issues = frame[["is_label_issue", "label_score"]]
            self.summary = self.make_summary(score=frame["label_score"].mean())
            self.info = {name: frame[name].tolist() for name in ("given_label", "predicted_label")}

    monkeypatch.setitem(
        issue_managers.REGISTRY[issue_managers.Task.CLASSIFICATION], "label", FromVerdicts
    )
    frame = digits.verdicts.to_cleanlab(digits.given, digits.predicted)
    lab = cleanlab.Datalab({"y": digits.given.tolist()}, label_name="y", verbosity=0)
    lab.find_issues(issue_types={"label": {"frame": frame}})

    pandas.testing.assert_frame_equal(lab.get_issues("label"), frame)
    summary = lab.get_issue_summary("label")
    assert summary["num_issues"].tolist() == [digits.verdicts.counts["incorrect"]]
    assert summary["score"].item() == pytest.approx(1.0 - digits.verdicts.noise_rate)
    lab.report(num_examples=3)
    report = capsys.readouterr().out
    assert f"Number of examples with this issue: {digits.verdicts.counts['incorrect']}" in report
