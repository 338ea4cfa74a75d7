"""Scores of predicted quantiles, and of means with a deviance, on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, mean_pinball_loss, mean_tweedie_deviance

from phimap.cli.output import Fact
from phimap.cli.scoring import Scores
from phimap.learn.targets.kinds import deviance_power, quantile_levels


def scores_of(model: Any, task: str, mean: float | None = None) -> Scores:
    """Return empty scores for the predictions of a model.

    `mean` is the mean of the training targets. By default it is the centre of the model. For squared errors this is the
    weighted mean of the targets, and for Huber's loss the weighted mean of the outputs.
    """
    if model.loss == "quantile":
        return QuantileScores(quantile_levels(model.quantile)["levels"].tolist())
    if task == "regression" and (power := deviance_power(model.loss, model.power)) is not None:
        return DevianceScores(power)
    if task == "regression" and mean is None and model.solution_.centre is not None:
        mean = float(model.solution_.centre[0])
    return Scores(task, getattr(model, "classes_", None), mean=mean)


class LossScores(Scores):
    """Scores of predictions by the loss that the model minimises, from the first 200,000 rows.

    Attributes
    ----------
    name : str
        Name of the loss in words.
    predicted : str
        What is predicted, in words.
    of_constant : str
        The constant that the model is compared with, in words.
    """

    name: str
    predicted: str
    of_constant: str

    def __init__(self) -> None:
        super().__init__("regression")

    def update(self, y: np.ndarray, predicted: np.ndarray, decisions: np.ndarray | None = None) -> None:
        self.n += len(y)
        self._keep(y, predicted, decisions)

    @property
    def error(self) -> float:
        """The mean loss."""
        return self.loss(*self.pairs())

    @property
    def baseline(self) -> float:
        """The mean loss of the best constant for these rows."""
        true, predicted = self.pairs()
        return self.loss(true, np.broadcast_to(self.constant(true), predicted.shape))

    def loss(self, true: np.ndarray, predicted: np.ndarray) -> float:
        """The mean loss of predictions."""
        raise NotImplementedError

    def constant(self, true: np.ndarray) -> Any:
        """The constant prediction that has the least loss for the values `true`."""
        raise NotImplementedError

    @property
    def d2(self) -> float:
        """The share of the best constant's loss that the model avoids: 1 for no loss, 0 for the best constant."""
        raise NotImplementedError

    @property
    def note(self) -> str:
        """A short note beside the loss."""
        return "mean on held-out rows"

    def facts(self) -> list[Fact]:
        name = self.name.replace(" ", "_")
        return [
            Fact("D2", self.d2, ".4f"),
            Fact(name, self.error, ".4g"),
            Fact(f"{name}_of_the_{self.of_constant}", self.baseline, ".4g"),
        ]


class QuantileScores(LossScores):
    """Scores of predicted quantiles.

    Parameters
    ----------
    levels : sequence of float
    """

    name, predicted, of_constant = "pinball loss", "quantiles", "constant"

    def __init__(self, levels: Sequence[float]) -> None:
        super().__init__()
        self.levels = list(levels)

    def loss(self, true: np.ndarray, predicted: np.ndarray) -> float:
        columns = predicted.reshape(len(true), -1).T
        losses = [mean_pinball_loss(true, one, alpha=q) for q, one in zip(self.levels, columns, strict=True)]
        return float(np.mean(losses))

    def constant(self, true: np.ndarray) -> Any:
        found = np.quantile(true, self.levels)
        return found if len(self.levels) > 1 else found[0]

    @property
    def d2(self) -> float:
        true, predicted = self.pairs()
        columns = predicted.reshape(len(true), -1).T
        return float(
            np.mean([d2_pinball_score(true, one, alpha=q) for q, one in zip(self.levels, columns, strict=True)])
        )

    def shares_below(self) -> np.ndarray:
        """Shares (q,) of the rows whose target is at most the predicted quantile.

        For exact quantiles, these shares equal the levels.
        """
        true, predicted = self.pairs()
        return (true[:, None] <= predicted.reshape(len(true), -1)).mean(axis=0)

    @property
    def note(self) -> str:
        if len(self.levels) == 1:
            return f"{100 * self.shares_below()[0]:.3g} % of rows lie below"
        true, predicted = self.pairs()
        inside = float(np.mean((predicted[:, 0] <= true) & (true <= predicted[:, -1])))
        return f"{100 * inside:.3g} % of rows between {self.levels[0]:g} and {self.levels[-1]:g}"

    def facts(self) -> list[Fact]:
        below = zip(self.levels, self.shares_below(), strict=True)
        return [*super().facts(), *(Fact(f"share_below_{level:g}", float(share), ".4f") for level, share in below)]


class DevianceScores(LossScores):
    """Scores of predicted means by their deviance.

    Parameters
    ----------
    power : float
        Power of the Tweedie deviance, from 1 to 2.
    """

    name, predicted, of_constant = "deviance", "means", "mean"

    def __init__(self, power: float) -> None:
        super().__init__()
        self._power = power

    def loss(self, true: np.ndarray, predicted: np.ndarray) -> float:
        return float(mean_tweedie_deviance(true, predicted, power=self._power))  # pyright: ignore[reportArgumentType]

    def constant(self, true: np.ndarray) -> Any:
        return true.mean()

    @property
    def d2(self) -> float:
        true, predicted = self.pairs()
        return float(d2_tweedie_score(true, predicted, power=self._power))  # pyright: ignore[reportArgumentType]
