"""Proposes schedules: evolution on a model of what the closed-form guess gets wrong.

Each batch holds the favourites of the model, careful and bold ones, and a random one, so that a bad guess cannot blind
the search. All is drawn from one seeded generator, and nothing depends on how fast or where candidates are evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .candidates import Candidates, Outcome
from .grid import Grid, Ints, Points, join
from .surrogate import Array, Surrogate

BATCH = 8
ENUMERATE = 4096  # spaces up to this size are listed whole, larger ones sampled
_SAMPLE = 512  # schedules drawn to find good starts in a space too large to list
_GENERATIONS = 3  # of the evolution on the prior alone, before the first batch
_BRED = 2  # generations between two batches: to ask for the priors of more children costs more than they bring
_WIDTH = 32  # of a generation, and the parents of the next
_LEARNED = 256  # points the model is fitted to: more would cost more than they tell
_TUNED = 4  # the model is tuned anew each so many batches; at first, while that is cheap, each time
_BOLDNESS = (0.0, 0.0, 0.5, 1.0, 1.0, 2.0)  # standard deviations of hope, one per place in a batch
_STRANGERS = 8  # random schedules that join the herd with each batch
_BLANKS = 64  # draws without a new legal schedule before a space counts as used up


class Proposer:
    """Which schedules to try next. `candidates` says which are legal, and what became of those tried."""

    def __init__(self, candidates: Candidates, seed: int) -> None:
        self._candidates = candidates
        self._random = np.random.default_rng(seed)
        self._grid = Grid(candidates.evaluator.space)
        self._model = Surrogate()
        self._fits = 0
        self._log_cycles: dict[int, float] = {}
        self._elite = self._points([])
        self._starts = self._find_starts()
        self._herd = self._starts.take(slice(2 * _WIDTH))

    @property
    def picks(self) -> list[int]:
        """The closed-form picks, best first: the first is what a careful engineer would write."""
        return [int(rank) for rank in self._starts.ranks]

    def propose(self, size: int = BATCH) -> list[int]:
        """Up to `size` new legal schedules; fewer only when hardly any are left."""
        if len(self._log_cycles) < BATCH:
            few = max(1, size // 4)  # the guess's favourites, alike and less alike; the rest is left to chance
            chosen = self.picks[:few] + self.picks[few : BATCH * size : BATCH][:few]
        else:
            chosen = self._favourites(self._pool(), size - max(1, size // BATCH))
        return self._fill(chosen, size)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learns what became of proposals. Invalid ones teach the model nothing, and are not proposed again."""
        valid = [outcome for outcome in outcomes if outcome.ticks is not None and outcome.reason is None]
        for outcome, guess in zip(valid, self._guess([outcome.rank for outcome in valid]), strict=True):
            bound = float(np.log(max(1, outcome.ticks or 1) / 1024))
            # Of one that was given up only a lower bound is known: the model's own guess stands if it is higher.
            self._log_cycles[outcome.rank] = bound if outcome.timed else max(bound, guess)
        seen = self._points(sorted(self._log_cycles))
        cycles = self._cycles(seen)
        order = np.lexsort((seen.ranks, cycles))
        if len(order) > _LEARNED:  # the best half, and an even sample of the others
            rest = order[_LEARNED // 2 :]
            order = np.concatenate([order[: _LEARNED // 2], rest[:: -(-len(rest) // (_LEARNED // 2))]])
        learned = seen.take(order)
        if len(learned) > 1:
            self._fits += 1
            tune = self._fits <= 2 * _TUNED or self._fits % _TUNED == 0
            self._model.fit(self._grid.features(learned.digits), cycles[order], learned.log_prior, tune=tune)
        self._elite = learned.take(slice(_WIDTH))

    def neighbours(self, rank: int) -> list[int]:
        """New legal schedules one choice away, the model's favourites first."""
        near = self._legal(self._grid.neighbours(rank))
        return self._favourites(near, len(near), boldness=(0.0,))

    def _find_starts(self) -> Points:
        """Legal schedules by prior, best first: all of a small space, the best that evolution finds in a large one."""
        if self._grid.count <= ENUMERATE:
            everything = self._legal(np.arange(self._grid.count))
            return everything.by(everything.log_prior)
        found = self._legal(self._grid.draw(self._random, _SAMPLE))
        for _ in range(_GENERATIONS):
            found = found.by(found.log_prior)
            if len(found):
                children = self._grid.children(self._random, found.digits[:_WIDTH], _WIDTH)
                found = join([found, self._legal(children)])
        return found.by(found.log_prior)

    def _pool(self) -> Points:
        """What the model chooses from: all of a small space, else a herd that evolves from batch to batch.

        It is bred from what was fastest, what the model likes, and strangers; what the model likes least goes.
        """
        if self._grid.count <= ENUMERATE:
            return self._starts
        herd = join([self._herd, self._elite, self._legal(self._grid.draw(self._random, _STRANGERS))])
        for _ in range(_BRED):
            children = self._legal(self._grid.children(self._random, herd.digits, _WIDTH))
            herd = join([herd, children])
            mean, deviation = self._predict(herd)
            herd = herd.by(np.round(mean - 0.5 * deviation, 9)).take(slice(2 * _WIDTH))
        self._herd = herd
        return herd

    def _favourites(self, pool: Points, size: int, boldness: Sequence[float] = _BOLDNESS) -> list[int]:
        """`size` new schedules of the pool: for each place the lowest of mean - boldness * deviation."""
        tried = self._candidates.outcomes
        pool = pool.take(np.array([rank not in tried for rank in pool.ranks.tolist()], dtype=bool))
        if not len(pool):
            return []
        mean, deviation = self._predict(pool)
        # Rounded, so that ties are ties with every linear algebra library and number of threads.
        orders = {b: pool.by(np.round(mean - b * deviation, 9)).ranks.tolist() for b in dict.fromkeys(boldness)}
        chosen: dict[int, None] = {}
        for place in range(min(size, len(pool))):
            order = orders[boldness[place % len(boldness)]]
            chosen[next(rank for rank in order if rank not in chosen)] = None
        return list(chosen)

    def _fill(self, chosen: Sequence[int], size: int) -> list[int]:
        """`chosen`, completed by random legal schedules; gives up after many blanks."""
        tried = self._candidates.outcomes
        kept = dict.fromkeys(rank for rank in chosen if rank not in tried)
        if self._grid.count <= ENUMERATE:
            left = [rank for rank in self.picks if rank not in kept and rank not in tried]
            need = min(size - len(kept), len(left))
            drawn = self._random.choice(left, need, replace=False).tolist() if need else []
            return [*kept, *drawn]
        for _ in range(_BLANKS):
            if len(kept) >= size:
                break
            drawn = self._random.permutation(self._legal(self._grid.draw(self._random, BATCH)).ranks).tolist()
            kept |= dict.fromkeys([rank for rank in drawn if rank not in tried][: size - len(kept)])
        return list(kept)

    def _guess(self, ranks: Sequence[int]) -> list[float]:
        """The model's mean, or before there is a model the prior."""
        points = self._points(ranks)
        mean = self._predict(points)[0] if self._fits else points.log_prior
        return [float(x) for x in np.round(mean, 9)]

    def _predict(self, points: Points) -> tuple[Array, Array]:
        return self._model.predict(self._grid.features(points.digits), points.log_prior)

    def _legal(self, ranks: Ints) -> Points:
        """The legal ones."""
        return self._points([rank for rank in ranks.tolist() if self._candidates.prior(rank) is not None])

    def _points(self, legal: Sequence[int]) -> Points:
        ranks = np.array(legal, dtype=np.int64)
        priors = self._candidates.priors
        return Points(ranks, self._grid.digits(ranks), np.log([priors[rank] for rank in legal]))

    def _cycles(self, points: Points) -> Array:
        return np.array([self._log_cycles[rank] for rank in points.ranks.tolist()])
