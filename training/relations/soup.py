"""Averages the weights of the packaged judge and of runs that went on from it, into a state.

    python -m training.relations.soup JUDGE OUT STATE... --share 0.5

The mean of networks that were trained on from one another ranks pairs better than each of them: a
run forgets a part of what it does not read, and the mean brings it back (Wortsman et al. 2022,
"Model soups" and "Robust fine-tuning of zero-shot models"). OUT is read by `export` and `weighing`
like the state of a run. `--share` is what the runs weigh together, in equal parts; the rest is the
packaged judge's. Choose it on the development cards.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from platformdirs import user_cache_path

from training.relations.model import BASE, packaged_in

Weights = Mapping[str, torch.Tensor]


def soup(packaged: Weights, runs: Sequence[Weights], share: float) -> dict[str, torch.Tensor]:
    """Return the weighted mean of each parameter; `share`, in 0..1, is that of all runs together."""
    return {
        name: (1 - share) * weight + share * torch.stack([run[name] for run in runs]).mean(0)
        for name, weight in packaged.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Average the packaged judge with runs from it.")
    parser.add_argument("judge", type=Path, help="the folder of the packaged judge")
    parser.add_argument("out", type=Path, help="the folder of the new state")
    parser.add_argument("states", type=Path, nargs="+", help="the folders of the runs")
    parser.add_argument("--share", type=float, default=0.5, help="of the runs together")
    given = parser.parse_args()
    base = user_cache_path("memsieve") / "models" / BASE
    packaged = packaged_in(given.judge, base / "model.onnx").state_dict()
    runs = [torch.load(one / "state.pt", weights_only=True)["net"] for one in given.states]
    given.out.mkdir(parents=True, exist_ok=True)
    torch.save({"net": soup(packaged, runs, given.share)}, given.out / "state.pt")


if __name__ == "__main__":
    main()
