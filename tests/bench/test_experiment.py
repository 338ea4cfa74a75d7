"""What the experiments share: the loop under a bar, the choice of measurements, and their words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from phimap._progress import Stages
from phimap.bench.experiment import as_dicts, grouped, having, mean_and_standard_deviation, measured, values


@dataclass(frozen=True)
class Measurement:
    method: str
    width: int
    error: float


FOUND = [Measurement("b", 2, 0.5), Measurement("a", 2, 0.25), Measurement("b", 1, 1.0), Measurement("b", 2, 1.5)]


class Counted(Stages):
    """Stages that keep what their bars were told."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        self.steps: list[int] = []
        with super().stage(f"{name} of {total}"):
            yield self.steps.append


def test_every_measurement_moves_the_bar_when_it_is_made():
    stages = Counted()
    seen = []

    def run() -> Iterator[Measurement]:
        for one in FOUND:
            seen.append(len(stages.steps))
            yield one

    assert measured(stages, "set", run(), 4) == FOUND
    assert seen == [0, 1, 2, 3]
    assert stages.steps == [1, 1, 1, 1]
    assert [stage.name for stage in stages.finished] == ["set of 4"]


def test_measurements_are_chosen_by_all_of_the_facts():
    assert having(FOUND, method="b", width=2) == [FOUND[0], FOUND[3]]
    assert having(FOUND, method="c") == []
    assert having(FOUND) == FOUND


def test_groups_keep_the_order_of_first_occurrence():
    assert list(grouped(FOUND, "method", "width")) == [("b", 2), ("a", 2), ("b", 1)]
    assert grouped(FOUND, "method")["b",] == [FOUND[0], FOUND[2], FOUND[3]]


def test_values_and_dicts_name_the_fields():
    np.testing.assert_array_equal(values(FOUND, "error"), [0.5, 0.25, 1.0, 1.5])
    assert as_dicts(FOUND[:1]) == [{"method": "b", "width": 2, "error": 0.5}]


@pytest.mark.parametrize(
    ("numbers", "text"), [([0.5], "0.5"), ([1.0, 3.0], "2 ± 1"), (np.array([0.1, 0.3]), "0.2 ± 0.1")]
)
def test_the_standard_deviation_of_one_stands_beside_the_mean(numbers, text):
    assert mean_and_standard_deviation(numbers) == text
