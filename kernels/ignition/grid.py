"""Schedules as rows of digits, many at once: what the proposer draws, mutates, crosses and shows to its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..space import Space
from .surrogate import Array

Ints = NDArray[np.int64]

_STEP = 0.8  # of the mutations of a ladder are one step; the others jump anywhere
_APART = 0.7  # feature of an unordered choice: two choices are as far apart as the ends of a ladder


@dataclass(frozen=True, slots=True)
class Points:
    """Legal schedules: ranks [n], digits [n, axes], log_prior [n] (log of the closed-form guess in cycles)."""

    ranks: Ints
    digits: Ints
    log_prior: Array

    def __len__(self) -> int:
        return len(self.ranks)

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Points:
        """Those that `index` picks, in its order."""
        return Points(self.ranks[index], self.digits[index], self.log_prior[index])

    def by(self, score: Array) -> Points:
        """The same, lowest score first; ties stand in schedule order."""
        return self.take(np.lexsort((self.ranks, score)))


def join(parts: Sequence[Points]) -> Points:
    """All of `parts`, each schedule once."""
    ranks = np.concatenate([part.ranks for part in parts])
    _, index = np.unique(ranks, return_index=True)
    digits = np.concatenate([part.digits for part in parts])
    return Points(ranks[index], digits[index], np.concatenate([part.log_prior for part in parts])[index])


class Grid:
    """The arithmetic of one space."""

    def __init__(self, space: Space) -> None:
        self.count = space.count()
        self.sizes = np.array([len(axis.choices) for axis in space.axes], dtype=np.int64)
        self._ladder = np.array([axis.ordered for axis in space.axes], dtype=bool)
        self._radix = np.concatenate([np.cumprod(self.sizes[:0:-1])[::-1], [1]]).astype(np.int64)

    def ranks(self, digits: Ints) -> Ints:
        """Ranks [n] of digits [n, axes]."""
        return digits @ self._radix

    def digits(self, ranks: Ints) -> Ints:
        """Digits [n, axes] of ranks [n]."""
        return ranks[:, None] // self._radix % self.sizes

    def features(self, digits: Ints) -> Array:
        """[n, d]: a ladder's place in 0..1; one column per choice of an unordered axis."""
        columns: list[Array] = []
        for axis, size in enumerate(self.sizes):
            if self._ladder[axis]:
                columns.append((digits[:, axis] / max(1, size - 1))[:, None])
            else:
                columns.append((digits[:, axis, None] == np.arange(size)) * _APART)
        return np.concatenate(columns, axis=1)

    def draw(self, random: np.random.Generator, size: int) -> Ints:
        """`size` ranks at random, legal or not, each once, sorted."""
        return np.unique(random.integers(0, self.count, size=size))

    def children(self, random: np.random.Generator, parents: Ints, size: int) -> Ints:
        """Ranks of up to `size` children of parents [n, axes]: uniform crossovers, most with a mutation or two."""
        first, second = (parents[random.integers(len(parents), size=size)] for _ in range(2))
        crossed = np.where(random.random(first.shape) < 0.5, first, second)
        stepped = np.clip(crossed + np.where(random.random(first.shape) < 0.5, -1, 1), 0, self.sizes - 1)
        jumped = random.integers(0, self.sizes, size=first.shape)
        mutated = np.where(self._ladder & (random.random(first.shape) < _STEP), stepped, jumped)
        children = np.where(random.random(first.shape) < 1.0 / len(self.sizes), mutated, crossed)
        return np.unique(self.ranks(children))

    def neighbours(self, rank: int) -> Ints:
        """Ranks that differ from `rank` in one choice: one step on a ladder, any other choice elsewhere. Sorted."""
        origin = self.digits(np.array([rank]))[0]
        near: list[int] = []
        for axis, size in enumerate(self.sizes):
            steps = (origin[axis] - 1, origin[axis] + 1) if self._ladder[axis] else range(size)
            near += [int(rank + (d - origin[axis]) * self._radix[axis]) for d in steps if 0 <= d < size]
        return np.unique(np.array([other for other in near if other != rank], dtype=np.int64))
