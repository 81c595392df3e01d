"""The model of the search is a Gaussian process: scikit-learn's, to which its numbers are held."""

from __future__ import annotations

import numpy as np
import pytest

from presil.kernels.ignition.surrogate import _NOISE, Surrogate


def data(count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    x = random.random((count, 3))
    prior = np.log(1000 + 500 * x[:, 0])
    return x, prior + np.sin(4 * x[:, 1]) + 0.2 * x[:, 2], prior


def test_mean_and_deviation_are_those_of_scikit_learn():
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    x, y, prior = data()
    ours = Surrogate()
    ours.fit(x, y, prior)
    residual = y - ours.trust * prior
    # Ours estimates the variance of the process from the data; theirs is told it.
    kernel = gaussian_process.kernels.Matern(length_scale=ours.length, nu=2.5)
    theirs = gaussian_process.GaussianProcessRegressor(kernel, alpha=_NOISE, optimizer=None)
    theirs.fit(x, residual - residual.mean())
    at = np.random.default_rng(2).random((25, 3))
    mean, deviation = theirs.predict(at, return_std=True)
    our_mean, our_deviation = ours.predict(at, np.zeros(25))
    np.testing.assert_allclose(our_mean, mean + residual.mean(), rtol=1e-7)
    np.testing.assert_allclose(our_deviation / our_deviation.max(), deviation / deviation.max(), rtol=1e-5)


def test_a_prior_that_explains_is_trusted_and_one_that_does_not_is_left_out():
    x, y, prior = data()
    model = Surrogate()
    model.fit(x, 3 * x[:, 1] + prior, prior)
    assert model.trust == 1.0
    model.fit(x, y, np.random.default_rng(3).normal(0, 5, len(y)))
    assert model.trust == 0.0


def test_known_points_are_met_and_far_ones_are_uncertain():
    x, y, prior = data()
    model = Surrogate()
    model.fit(x, y, prior)
    mean, deviation = model.predict(x, prior)
    np.testing.assert_allclose(mean, y, atol=0.02)
    _, far = model.predict(np.full((1, 3), 9.0), np.zeros(1))
    assert far[0] > 20 * deviation.max()


def test_equal_targets_are_no_trouble():
    model = Surrogate()
    model.fit(np.zeros((4, 2)), np.full(4, 7.0), np.zeros(4))
    mean, deviation = model.predict(np.ones((1, 2)), np.zeros(1))
    assert mean[0] == pytest.approx(7.0)
    assert np.isfinite(deviation[0])
