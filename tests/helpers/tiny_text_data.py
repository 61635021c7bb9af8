"""Tiny WikiHow files in their publishers' layouts, and tiny encoders that need no network."""

import csv
import json
from pathlib import Path

from tokenizers import processors

from discrimloss.models.text_encoder import (
    Architecture,
    byte_tokenizer,
    new_configuration,
    transformers_library,
)

TASKS = ("goal", "step", "order")
BENCHMARK = {
    "goal": ("goal_inference", "The most reasonable goal of '{}' is "),
    "step": ("step_inference", "The most reasonable step of '{}' is "),
    "order": (
        "step_ordering",
        "In order to '{}', one can 'a' and 'b'. Which should happen first? ",
    ),
}


def num_choices(task: str) -> int:
    return 2 if task == "order" else 4


def tiny_choices(task: str, number: int, kind: str) -> tuple[list[str], int]:
    """Choices of which the right one repeats the context's number, and its position."""
    count = num_choices(task)
    right = number % count
    return [
        f"{kind} {number}" if place == right else f"other {number} {place}"
        for place in range(count)
    ], right


def write_wikihow(
    directory: Path,
    *,
    tasks: tuple[str, ...] = TASKS,
    train: int = 40,
    test: int = 10,
    benchmark: int = 30,
) -> Path:
    """``directory/wikihow`` with so many questions per file; no file where the number is 0."""
    folder = directory / "wikihow"
    for task in tasks:
        for name, count in (("train", train), ("val", test)):
            if count:
                write_swag_csv(folder / task / f"{name}.csv", task, count, kind=name)
        if benchmark:
            write_benchmark(folder / f"{BENCHMARK[task][0]}.json", task, benchmark)
    return directory


def write_swag_csv(file: Path, task: str, count: int, kind: str = "train") -> None:
    """The layout of SWAG: a column without a name, some that nobody reads, and those that count."""
    file.parent.mkdir(parents=True, exist_ok=True)
    endings = [f"ending{place}" for place in range(num_choices(task))]
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        header = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
        writer.writerow([*header, *endings, "label"])
        for number in range(count):
            choices, right = tiny_choices(task, number, kind)
            context = f"{task} of {kind} {number}"
            row = [number, f"{number}.json", number, context, context, "", "gold"]
            writer.writerow([*row, *choices, right])


def write_benchmark(file: Path, task: str, count: int) -> None:
    """The layout of a BIG-bench task."""
    file.parent.mkdir(parents=True, exist_ok=True)
    name, sentence = BENCHMARK[task]
    examples = []
    for number in range(count):
        choices, right = tiny_choices(task, number, "benchmark")
        scores = {choice: int(place == right) for place, choice in enumerate(choices)}
        question = sentence.format(f"{task} of benchmark {number}")
        examples.append({"input": question, "target_scores": scores})
    task_file = {"name": name, "description": "made by a test", "examples": examples}
    file.write_text(json.dumps(task_file), encoding="utf-8")


def write_tiny_encoder(directory: Path, kind: Architecture = "bert") -> Path:
    """A random encoder of 16 units with its tokenizer of bytes, as `save_pretrained` leaves it."""
    transformers = transformers_library()
    configuration = new_configuration(kind, hidden_size=16, num_layers=1)
    tokenizer = byte_tokenizer()
    if kind == "gpt2":  # has one special token only, and nothing between two texts
        backend = tokenizer.backend_tokenizer
        backend.post_processor = processors.ByteLevel(trim_offsets=False)
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend, eos_token="</s>", model_max_length=512
        )
    tokenizer.save_pretrained(directory)
    transformers.AutoModel.from_config(configuration).save_pretrained(directory)
    return directory
