"""A small attention over two texts' word vectors, trained beside the trees.

Each word is compared with what it is aligned to on the other side: by its vector, by being the same
word, and by where both stand. The features of the pair join before the last layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streams.core.judge.prepared import MARKS

Matrix = NDArray[np.float32]

_WIDTH = 80
_HIDDEN = 96
_BATCH = 96
_RATE = 1.5e-3
_CLIPPED = 4.0
_TURNED = 0.5
_POOL = 40
"""Batches whose pairs are sorted by length together, so that little is padded."""


class Text(NamedTuple):
    """A text's `tokens` and `keys`, as `prepare` gives them."""

    tokens: Matrix
    keys: NDArray[np.int64]


class Rows(NamedTuple):
    """Pairs to learn from: places in a list of texts, both ways round told by `turned` columns."""

    event: NDArray[np.int64]
    memory: NDArray[np.int64]
    features: Matrix


class Head(nn.Module):
    """The network; see the module. It reads one way round: `answers` averages both."""

    def __init__(self, dimension: int, features: int, classes: int) -> None:
        super().__init__()
        depth = MARKS + dimension
        self.before = nn.Linear(depth, _WIDTH, bias=False)
        self.here = nn.Linear(depth, _WIDTH)
        self.behind = nn.Linear(depth, _WIDTH, bias=False)
        self.asked = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.scales = nn.Parameter(torch.tensor([6.0, 3.0, 2.0]))
        self.compared = nn.Linear(4 * _WIDTH + 3, _WIDTH)
        self.weighed = nn.Linear(_WIDTH, _WIDTH)
        self.joined = nn.Linear(8 * _WIDTH + features, _HIDDEN)
        self.told = nn.Linear(_HIDDEN, classes)
        self.inputs, self.hidden = nn.Dropout(0.1), nn.Dropout(0.25)

    def forward(
        self,
        features: Tensor,
        event: Tensor,
        memory: Tensor,
        ours: Tensor,
        theirs: Tensor,
        same: Tensor,
    ) -> Tensor:
        """`ours` and `theirs` mark words (1) and padding (0); `same`: equal lemmas."""
        a, b = self._mixed(event), self._mixed(memory)
        near = event[..., MARKS:] @ memory[..., MARKS:].transpose(1, 2)
        apart = (event[..., :1] - memory[..., :1].transpose(1, 2)).abs()
        energy = functional.linear(a, self.alike()) @ b.transpose(1, 2) / _WIDTH**0.5
        energy = energy + self.scales[0] * near + self.scales[1] * same - self.scales[2] * apart
        real = ours[:, :, None] * theirs[:, None, :]
        energy = energy.masked_fill(real == 0, -1e4)
        near = near.masked_fill(real == 0, -1.0)
        x = self._side(a, b, event, memory, energy.softmax(2), near.amax(2), same.amax(2), ours)
        y = self._side(
            b,
            a,
            memory,
            event,
            energy.softmax(1).transpose(1, 2),
            near.amax(1),
            same.amax(1),
            theirs,
        )
        pair = torch.cat([x, y, (x - y).abs(), x * y, features], 1)
        return self.told(self.hidden(functional.relu(self.joined(pair))))

    def alike(self) -> Tensor:
        """Return what two words' alikeness is weighed by: the same from both sides."""
        return (self.asked.weight + self.asked.weight.T) / 2

    def _mixed(self, tokens: Tensor) -> Tensor:
        tokens = self.inputs(tokens)
        left = functional.pad(tokens[:, :-1], (0, 0, 1, 0))
        right = functional.pad(tokens[:, 1:], (0, 0, 0, 1))
        return torch.tanh(self.here(tokens) + self.before(left) + self.behind(right))

    def _side(
        self,
        a: Tensor,
        b: Tensor,
        here: Tensor,
        there: Tensor,
        weights: Tensor,
        near: Tensor,
        same: Tensor,
        real: Tensor,
    ) -> Tensor:
        aligned = weights @ b
        moved = (here[..., :1] - weights @ there[..., :1]).abs()
        parts = [
            a,
            aligned,
            (a - aligned).abs(),
            a * aligned,
            near[..., None],
            same[..., None],
            moved,
        ]
        seen = functional.relu(self.weighed(functional.relu(self.compared(torch.cat(parts, 2)))))
        mask = real[..., None]
        mean = (seen * mask).sum(1) / mask.sum(1)
        return torch.cat([mean, (seen * mask).amax(1)], 1)


class Scale(NamedTuple):
    """How features are brought to one scale: (feature - mean) / spread, clipped."""

    mean: Matrix
    spread: Matrix

    def of(self, features: Matrix) -> Matrix:
        return np.clip((features - self.mean) / self.spread, -_CLIPPED, _CLIPPED).astype(np.float32)


def fit(
    texts: Sequence[Text], rows: Rows, labels: NDArray[np.int64], weights: Matrix,
    *, turned: Sequence[int], classes: Sequence[int], epochs: int, seed: int,
) -> tuple[Head, Scale]:  # fmt: skip
    """Train a head; the same rows and seed give the same head on the same machine."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    chance = Random(seed)
    both = np.vstack([rows.features, rows.features[:, list(turned)]])
    scale = Scale(both.mean(0), both.std(0) + 1e-6)
    scaled = scale.of(rows.features), scale.of(rows.features[:, list(turned)])
    head = Head(texts[0].tokens.shape[1] - MARKS, rows.features.shape[1], len(classes))
    optimiser = torch.optim.AdamW(head.parameters(), lr=_RATE, weight_decay=0.02)
    steps = epochs * (len(labels) // _BATCH + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, _RATE, total_steps=steps, pct_start=0.1
    )
    swap = np.array(classes)
    head.train()
    lengths = np.array([len(text.keys) for text in texts])
    longest = np.maximum(lengths[rows.event], lengths[rows.memory])
    for epoch in range(epochs):
        total = 0.0
        for batch in _batches(longest, chance):
            turn = np.array([chance.random() < _TURNED for _ in batch])
            one = np.where(turn, rows.memory[batch], rows.event[batch])
            other = np.where(turn, rows.event[batch], rows.memory[batch])
            given = np.where(turn[:, None], scaled[1][batch], scaled[0][batch])
            wanted = torch.from_numpy(np.where(turn, swap[labels[batch]], labels[batch]))
            counted = torch.from_numpy(weights[batch])
            logits = head(torch.from_numpy(given), *_padded(texts, one, other))
            losses = functional.cross_entropy(
                logits, wanted, reduction="none", label_smoothing=0.03
            )
            loss = (losses * counted).sum() / counted.sum()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        print(f"head: epoch {epoch + 1}, loss {total / len(labels):.4f}", flush=True)
    return head.eval(), scale


def answers(
    head: Head,
    scale: Scale,
    texts: Sequence[Text],
    rows: Rows,
    turned: Sequence[int],
    classes: Sequence[int],
) -> Matrix:
    """Return the scores of pairs, shape (n, classes), averaged over both ways round."""
    out = np.zeros((len(rows.event), len(classes)), np.float32)
    lengths = np.array([len(text.keys) for text in texts])
    order = np.argsort(np.maximum(lengths[rows.event], lengths[rows.memory]), kind="stable")
    with torch.no_grad():
        for start in range(0, len(order), 256):
            at = order[start : start + 256]
            one, other = rows.event[at], rows.memory[at]
            here = head(torch.from_numpy(scale.of(rows.features[at])), *_padded(texts, one, other))
            there = head(
                torch.from_numpy(scale.of(rows.features[at][:, list(turned)])),
                *_padded(texts, other, one),
            )
            out[at] = ((here + there[:, list(classes)]) / 2).numpy()
    return out


def _batches(lengths: NDArray[np.int64], chance: Random) -> Iterator[NDArray[np.int64]]:
    order = np.array(chance.sample(range(len(lengths)), len(lengths)))
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), _BATCH * _POOL):
        pool = order[start : start + _BATCH * _POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[at : at + _BATCH] for at in range(0, len(pool), _BATCH)]
    chance.shuffle(batches)
    yield from batches


def _padded(
    texts: Sequence[Text], events: NDArray[np.int64], memories: NDArray[np.int64]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    event, ours, keys = _side([texts[at] for at in events])
    memory, theirs, others = _side([texts[at] for at in memories])
    same = (keys[:, :, None] == others[:, None, :]).float() * ours[:, :, None] * theirs[:, None, :]
    return event, memory, ours, theirs, same


def _side(texts: Sequence[Text]) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(text.keys) for text in texts)
    tokens = np.zeros((len(texts), longest, texts[0].tokens.shape[1]), np.float32)
    real = np.zeros((len(texts), longest), np.float32)
    keys = np.zeros((len(texts), longest), np.int64)
    for at, text in enumerate(texts):
        size = len(text.keys)
        tokens[at, :size], real[at, :size], keys[at, :size] = text.tokens, 1.0, text.keys
    return torch.from_numpy(tokens), torch.from_numpy(real), torch.from_numpy(keys)


def weights_of(head: Head) -> Mapping[str, Matrix]:
    """Return the head's parameters by name."""
    weights = {name: value.detach().numpy() for name, value in head.state_dict().items()}
    return weights | {"asked.weight": head.alike().detach().numpy()}
