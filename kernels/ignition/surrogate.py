"""The model of the search: a Gaussian process on what the closed-form guess gets wrong.

Written out on numpy and scipy: it is the process of scikit-learn (a test holds them equal), whose import alone takes
longer than a whole search of 200 candidates, and whose tuning of length scales takes 0.4 s where this grid takes
milliseconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

Array = NDArray[np.float64]

_LENGTHS = (0.35, 0.7, 1.4, 2.8)
_NOISE = 1e-4  # of the variance: simulations are exact, but not smooth where tiles stop dividing a shape
_TRUST = (1.0, 0.0)  # log cycles = trust * log prior + process: a guess that explains nothing is left out


class Surrogate:
    """A Matern-5/2 process. Its length scale and its trust in the prior are the likeliest of a small grid."""

    def __init__(self) -> None:
        self.length, self.trust = 1.0, 1.0
        self._x: Array = np.zeros((0, 0))
        self._mean, self._deviation = 0.0, 1.0
        self._inverse: Array = np.zeros((0, 0))  # of the lower Cholesky factor of the covariance
        self._weights: Array = np.zeros(0)

    def fit(self, x: Array, log_cycles: Array, log_prior: Array, *, tune: bool = True) -> None:
        """Learns log_cycles [n] at points x [n, d] whose closed-form guess is log_prior [n]; n >= 2.

        Without `tune`, length scale and trust stay as they are, for a quarter of the time.
        """
        self._x = x
        distance, count, best = _distance(x, x), len(x), -np.inf
        for length in _LENGTHS if tune else (self.length,):
            covariance = _matern(distance / length)
            covariance[np.diag_indices(count)] += _NOISE
            lower = cholesky(covariance, lower=True)
            inverse = solve_triangular(lower, np.eye(count), lower=True)
            for trust in _TRUST if tune else (self.trust,):
                residual = log_cycles - trust * log_prior
                mean = float(residual.mean())
                whitened = inverse @ (residual - mean)
                variance = float(whitened @ whitened) / count + 1e-12
                likelihood = -0.5 * count * np.log(variance) - float(np.log(np.diag(lower)).sum())
                if likelihood > best + 1e-9:
                    best, self.length, self.trust, self._inverse = likelihood, length, trust, inverse
                    self._mean, self._deviation = mean, float(np.sqrt(variance))
                    self._weights = inverse.T @ whitened

    def predict(self, x: Array, log_prior: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of log cycles, both [m], at points x [m, d] with their guess log_prior [m]."""
        covariance = _matern(_distance(x, self._x) / self.length)
        mean = covariance @ self._weights + self._mean + self.trust * log_prior
        left = 1.0 - np.square(covariance @ self._inverse.T).sum(axis=1)
        return mean, np.sqrt(np.maximum(left, 0.0)) * self._deviation


def _distance(a: Array, b: Array) -> Array:
    squared = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def _matern(r: Array) -> Array:
    scaled = np.sqrt(5.0) * r
    return np.asarray((1.0 + scaled + scaled * scaled / 3.0) * np.exp(-scaled))
