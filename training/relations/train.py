"""Trains the relation network; it may be stopped at any time, and resumes from its last state.

    python -m training.relations.train DATA STATE --pairs 400000

DATA is the folder with `pairs/`, `streams/` and `train/` of permitted sets (see `training.pairs`);
STATE holds the newest weights, the optimiser's state and the log. A batch takes a few pairs of each
of several cards: pairs of one card share texts, which are encoded once, but teach much the same.
The learning rate warms up, stays constant, and decays over the last fifth of the pairs; a run
resumed with more pairs returns to the constant rate. The result is a moving average of the weights
(Polyak and Juditsky 1992), which ranks unseen pairs better than the last weights do.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from platformdirs import user_cache_path
from sklearn.metrics import roc_auc_score
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from training.pairs import collect, evaluated_texts, read_collected
from training.relations.material import (
    ONE_MEMORY,
    RELATIONS,
    Card,
    Example,
    cards,
    copies_beside,
    for_development,
    inferences,
    near_copies,
    of_card,
    of_labelled,
    split,
    strangers,
    without,
)
from training.relations.model import BASE, Relations, packaged_in, started_from, texts_of

TOKENS_MAX = 48
"""Maximum tokens of a training text; longer texts are left out."""
_SEED = 20261122
_BATCH = 64
_CHUNK = 32
_OF_ONE_CARD = 16
"""Maximum pairs of one card in a batch."""
_KEPT_OF_AVERAGE = 0.995
"""The share of the averaged weights that a step keeps."""
_RATE = 8e-5
_HEAD_RATE = 4e-4
_RISE = 300
_FALL = 0.2
_DECAY = 0.01
_SMOOTHING = 0.03
_KEEP_EVERY = 100
_JUDGE_EVERY = 2_500
_STRANGERS = 1_500
_DIARIES = 5
"""How often a round draws from each diary: there are few, and they are most like what agents note."""
_FRESH = 10
"""How often a round draws from a card that no earlier run has read: the others are nearly known by
heart (on them the packaged network finds 74 % at 1 % wrong, on cards like them 50 %)."""
_BRIEF = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - there is no public API
"""Whether this processor supports bf16, which halves the time of a step."""


@dataclass
class Progress:
    """The progress of a run: steps, pairs read, and seconds."""

    step: int = 0
    pairs: int = 0
    seconds: float = 0.0


class Encoded:
    """Texts as token ids, each tokenised once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, list[int]] = {}

    def of(self, text: str) -> list[int]:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._tokenizer.encode(text).ids
        return found

    def fits(self, text: str) -> bool:
        return len(text) < 12 * TOKENS_MAX and len(self.of(text)) <= TOKENS_MAX


class Material:
    """The training material, resampled in each round, in batches that share texts."""

    def __init__(
        self, data: Path, pairs: Path | None, encoded: Encoded, fresh: Sequence[str] = ()
    ) -> None:
        """`fresh` are beginnings of the names of cards that are drawn more often."""
        self._encoded = encoded
        self._fresh = tuple(fresh)
        self._avoided = evaluated_texts(data)
        self._learnt, self.development, self.held_out = split(cards())
        labelled = collect(data) if pairs is None else read_collected(pairs)
        loose = [*of_labelled(labelled), *inferences(data / "train", Random(_SEED))]
        self._fixed = without(
            (one for one in loose if not for_development(one)), self._avoided, encoded.fits
        )

    def round(self, number: int) -> Iterator[list[Example]]:
        """Yield the batches of one round: every training card, and a share of the other pairs."""
        chance = Random(_SEED + number)
        groups = [
            group
            for card in self._learnt
            for _ in range(self._draws(card))
            for group in self._of_card(card, chance)
        ]
        loose = [*strangers(self._learnt, chance, _STRANGERS), *self._share_of_fixed(number)]
        chance.shuffle(loose)
        loose.sort(key=lambda one: self._length(one) // 8)
        groups += [loose[at : at + _CHUNK] for at in range(0, len(loose), _CHUNK)]
        chance.shuffle(groups)
        batch: list[Example] = []
        for group in groups:
            batch += without(group, self._avoided, self._encoded.fits)
            if len(batch) >= _BATCH:
                yield batch
                batch = []

    def _draws(self, card: Card) -> int:
        often = _DIARIES if card.kind == "diaries" else 1
        return often * _FRESH if card.name.startswith(self._fresh) else often

    def _of_card(self, card: Card, chance: Random) -> list[list[Example]]:
        found = [*of_card(card, chance, 0.5), *near_copies(card, chance)]
        found += copies_beside(card, chance)
        chance.shuffle(found)
        return [found[at : at + _OF_ONE_CARD] for at in range(0, len(found), _OF_ONE_CARD)]

    def _share_of_fixed(self, number: int) -> list[Example]:
        rounds = 6
        return self._fixed[number % rounds :: rounds]

    def _length(self, one: Example) -> int:
        return len(self._encoded.of(one.first)) + len(self._encoded.of(one.second))


def logits(net: Relations, encoded: Encoded, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """Return the network's logits for pairs; each text is encoded by itself once."""
    texts = {text: at for at, text in enumerate(dict.fromkeys(t for pair in pairs for t in pair))}
    ids = [encoded.of(text) for text in texts]
    lengths = [len(one) for one in ids]
    alone = net.alone(texts_of(ids))
    places = [(texts[one], texts[other]) for one, other in pairs]
    order = sorted(range(len(pairs)), key=lambda at: sum(lengths[p] for p in places[at]))
    told = [
        net.together(alone, lengths, [places[at] for at in order[start : start + _CHUNK]])
        for start in range(0, len(order), _CHUNK)
    ]
    back = torch.tensor(order).argsort()
    return torch.cat(told)[back]


def loss_of(told: Tensor, batch: Sequence[Example]) -> Tensor:
    """Return the weighted, smoothed negative log-likelihood of the relations the labels allow."""
    left_open = torch.zeros(len(batch), len(RELATIONS))
    for row, one in enumerate(batch):
        for name in one.relations:
            left_open[row, RELATIONS.index(name)] = 1.0
    log_p = torch.log_softmax(told, -1)
    surprise = -torch.logsumexp(log_p.masked_fill(left_open == 0, -1e9), -1)
    smoothed = (1 - _SMOOTHING) * surprise - _SMOOTHING * log_p.mean(-1)
    weights = torch.tensor([one.weight for one in batch])
    return (smoothed * weights).sum() / weights.sum()


def probabilities(
    net: Relations, encoded: Encoded, pairs: Sequence[tuple[str, str]]
) -> NDArray[np.float32]:
    """Return probabilities over RELATIONS, shape (n, relations)."""
    net.eval()
    with torch.no_grad():
        told = [
            torch.softmax(logits(net, encoded, pairs[at : at + 256]), -1).numpy()
            for at in range(0, len(pairs), 256)
        ]
    net.train()
    return np.concatenate(told)


def judged(net: Relations, encoded: Encoded, found: Sequence[Card]) -> dict[str, float]:
    """Return the metrics on cards not used in training, by kind of card."""
    figures: dict[str, float] = {}
    for kind in ("strict", "sightings", "retold", "diaries"):
        some = [card for card in found if card.kind == kind]
        chance = Random(_SEED)
        examples = [one for card in some for one in of_card(card, chance, 0.5)]
        examples = [one for one in examples if encoded.fits(one.first) and encoded.fits(one.second)]
        if not examples:
            continue
        told = probabilities(net, encoded, [(one.first, one.second) for one in examples])
        worth = told[:, : len(ONE_MEMORY)].sum(1)
        one_memory = np.array([set(one.relations) <= set(ONE_MEMORY) for one in examples])
        apart = np.sort(worth[~one_memory])[::-1]
        figures[f"{kind}: AUC"] = float(roc_auc_score(one_memory, worth))
        for share in (0.01, 0.03):
            least = apart[int(share * len(apart))]
            figures[f"{kind}: found at {share:.0%} wrong"] = float(
                (worth[one_memory] > least).mean()
            )
        right = [
            RELATIONS[at] in one.relations for at, one in zip(told.argmax(1), examples, strict=True)
        ]
        figures[f"{kind}: right"] = float(np.mean(right))
    return {name: round(value, 4) for name, value in figures.items()}


class Run:
    """One training run, with its state in a folder."""

    def __init__(self, state: Path, net: Relations, wanted: int) -> None:
        self._file = state / "state.pt"
        self._log = state / "log.jsonl"
        self._wanted = wanted
        self.net = net
        self.net.words.weight.requires_grad_(requires_grad=False)
        self.average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(_KEPT_OF_AVERAGE))
        self._optimiser = torch.optim.AdamW(self._groups(), betas=(0.9, 0.98), eps=1e-6)
        self.progress = Progress()
        if self._file.exists():
            self._go_on()

    def _groups(self) -> list[dict[str, object]]:
        head, decayed, free = [], [], []
        for name, weight in self.net.named_parameters():
            if not weight.requires_grad:
                continue
            if name.startswith(("hidden", "told", "across")):
                head.append(weight)
            else:
                (decayed if weight.ndim > 1 and not name.startswith("positions") else free).append(
                    weight
                )
        return [
            {"params": head, "weight_decay": _DECAY, "rate": _HEAD_RATE},
            {"params": decayed, "weight_decay": _DECAY, "rate": _RATE},
            {"params": free, "weight_decay": 0.0, "rate": _RATE},
        ]

    def _go_on(self) -> None:
        kept = torch.load(self._file, weights_only=True)
        self.net.load_state_dict(kept["learning"])
        self.average.module.load_state_dict(kept["net"])
        self._optimiser.load_state_dict(kept["optimiser"])
        self.progress = Progress(**kept["progress"])
        self.average.n_averaged.fill_(self.progress.step)

    def keep(self) -> None:
        """Write the state atomically."""
        new = self._file.with_suffix(".new")
        torch.save(
            {
                "net": self.average.module.state_dict(),
                "learning": self.net.state_dict(),
                "optimiser": self._optimiser.state_dict(),
                "progress": asdict(self.progress),
            },
            new,
        )
        new.replace(self._file)

    def note(self, **figures: object) -> None:
        """Append a line to the log, and print it."""
        line = json.dumps({**asdict(self.progress), **figures})
        print(line, flush=True)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    @property
    def left(self) -> float:
        """The share of the pairs still to be read."""
        return max(0.0, 1 - self.progress.pairs / self._wanted)

    def learn(self, encoded: Encoded, batch: Sequence[Example]) -> float:
        """Take one step; return the loss."""
        torch.manual_seed(_SEED + self.progress.step)
        rate = min(1.0, (self.progress.step + 1) / _RISE, self.left / _FALL + 0.01)
        for group in self._optimiser.param_groups:
            group["lr"] = group["rate"] * rate
        # The fused kernel's backward pass is slow on one thread.
        with torch.autocast("cpu", torch.bfloat16, enabled=_BRIEF), sdpa_kernel(SDPBackend.MATH):
            told = logits(self.net, encoded, [(one.first, one.second) for one in batch])
        loss = loss_of(told.float(), batch)
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self._optimiser.step()
        self.average.update_parameters(self.net)
        self.progress.step += 1
        self.progress.pairs += len(batch)
        return loss.item()


def main() -> None:
    options = _options()
    options.state.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = Encoded(tokenizer)
    material = Material(options.data, options.collected, encoded, options.fresh)
    base = options.model / "model.onnx"
    net = started_from(base) if options.judge is None else packaged_in(options.judge, base)
    run = Run(options.state, net, options.pairs)
    run.net.train()
    _learn(run, material, encoded, options.first_round)


def _learn(run: Run, material: Material, encoded: Encoded, first_round: int) -> None:
    losses: list[float] = []
    began = time.monotonic() - run.progress.seconds
    number, passed = first_round, 0
    while run.left:
        for batch in material.round(number):
            passed += 1
            if passed <= run.progress.step:  # done before the run was stopped
                continue
            losses.append(run.learn(encoded, batch))
            run.progress.seconds = round(time.monotonic() - began, 1)
            if run.progress.step % _KEEP_EVERY == 0:
                run.keep()
                run.note(loss=round(float(np.mean(losses)), 4))
                losses.clear()
            if run.progress.step % _JUDGE_EVERY == 0:
                run.note(**judged(run.average.module, encoded, material.development))
            if not run.left:
                break
        number += 1
    run.keep()
    run.note(**judged(run.average.module, encoded, material.development))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the network of relations.")
    parser.add_argument("data", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("--pairs", type=int, default=400_000, help="pairs to read in all")
    parser.add_argument("--judge", type=Path, help="the folder of a packaged judge to start from")
    parser.add_argument(
        "--first-round", type=int, default=0, help="rounds draw by number; do not repeat any"
    )
    parser.add_argument(
        "--fresh", nargs="*", default=(), help="cards to draw more often, by how their names begin"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--collected", type=Path, help="what training.pairs wrote, to save a minute"
    )
    parser.add_argument(
        "--model",
        type=Path,
        default=user_cache_path("memsieve") / "models" / BASE,
        help="the folder of the encoder to start from",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
