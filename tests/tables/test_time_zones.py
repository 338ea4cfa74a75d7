"""Time zones of columns: stored with the encoder, so that other zones are converted, and a lack of one is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import phimap as pm

# What is tested is what the models are given.
pytestmark = pytest.mark.usefixtures("brief_search")

TIMES = pd.Series(pd.date_range("2024-01-01", periods=800, freq="97min", tz="UTC"))
HOURS = TIMES.dt.hour + TIMES.dt.minute / 60
Y = np.sin(2 * np.pi * HOURS.to_numpy() / 24)


def frame(times):
    return pd.DataFrame({"t": times})


def iso(times):
    """The times as text with the offset of their zone."""
    return frame([time.isoformat() for time in times])


def fitted(X):
    return pm.KernelRegressor("gaussian", 64, metric=None, random_state=0).fit(X, Y)


def test_another_zone_is_converted():
    """R2 was .995 for times in UTC, and -2.40 for the same times in Tokyo's zone."""
    model = fitted(frame(TIMES))
    expected = model.predict(frame(TIMES))
    assert model.score(frame(TIMES), Y) > 0.99
    for zone in ("Asia/Tokyo", "America/New_York", "+05:30"):
        np.testing.assert_array_equal(model.predict(frame(TIMES.dt.tz_convert(zone))), expected)


@pytest.mark.parametrize("train", ["typed", "text"])
@pytest.mark.parametrize("new", ["typed", "text"])
def test_offsets_of_texts_are_zones(train, new):
    make = {"typed": frame, "text": iso}
    model = fitted(make[train](TIMES))
    moved = make[new](TIMES.dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_allclose(model.predict(moved), model.predict(make[train](TIMES)), atol=1e-6)


def test_local_habits_follow_the_zone_of_training():
    """The trend and the hour are those of the training zone's clock, also through a change of the clock."""
    local = TIMES.dt.tz_convert("Europe/Berlin")
    encoder = pm.TableEncoder().fit(frame(local))
    np.testing.assert_array_equal(encoder.transform(frame(TIMES)), encoder.transform(frame(local)))
    assert encoder.columns_[0].encoding.zone == "Europe/Berlin"


@pytest.mark.parametrize("make", [frame, iso])
def test_times_without_a_zone_are_refused(make):
    naive, zoned = make(TIMES.dt.tz_localize(None)), make(TIMES)
    with pytest.raises(ValueError, match=r"column 't' must hold times with a time zone, such as .*, got times without"):
        fitted(zoned).predict(naive)
    with pytest.raises(ValueError, match="column 't' must hold times without a time zone, as in the"):
        fitted(naive).predict(zoned)
    # A column without any times has no zone to compare.
    assert np.isfinite(fitted(zoned).predict(frame([None, None]))).all()


def test_batches_of_several_zones_are_converted_too():
    parts = [TIMES[:400], TIMES[400:].dt.tz_convert("Asia/Tokyo")]
    in_parts = pm.TableEncoder().fit_batches([(frame(part), None) for part in parts])
    whole = pm.TableEncoder().fit(frame(TIMES))
    np.testing.assert_allclose(in_parts.transform(frame(TIMES)), whole.transform(frame(TIMES)), atol=1e-6)
    with pytest.raises(ValueError, match="column 't' must hold times with a time zone"):
        pm.TableEncoder().fit_batches([(frame(TIMES[:400]), None), (frame(TIMES[400:].dt.tz_localize(None)), None)])


def test_texts_of_several_offsets_keep_their_local_time():
    """Winter and summer of one place: habits follow its clock, and the texts do not name the place."""
    local = pd.Series(pd.date_range("2024-03-20", periods=800, freq="1h", tz="Europe/Berlin"))
    encoder = pm.TableEncoder().fit(iso(local))
    assert encoder.columns_[0].encoding.zone is None
    expected = pm.TableEncoder().fit(frame(local)).transform(frame(local))
    np.testing.assert_allclose(encoder.transform(iso(local)), expected, atol=1e-6)


def test_zones_are_saved(tmp_path):
    model = fitted(frame(TIMES))
    pm.save(model, tmp_path / "m")
    moved = frame(TIMES.dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_array_equal(pm.load(tmp_path / "m").predict(moved), model.predict(moved))
