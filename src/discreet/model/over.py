"""Interfaces of what a release is over, and of its prior: of networks, and of what packs bring beside them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from discreet.model.schema import Schema


class Over(ABC):
    """Public description of records that a release is over, fixed before any record is read.

    Attributes:
        domain: name of the class in documents and in the registry of mechanisms: "network", or that of a pack's.
    """

    domain: ClassVar[str]

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Columns of the records."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of quantities that a release estimates: cells of tables, or coefficients."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Kind of the description in words, for a message: "a network"."""

    @property
    def instead(self) -> str:
        """Name of its kind, and advice on a release over it, where a network is asked for."""
        return (
            f"a {self.domain}, not a network: ask it with `query`, or read it from Python with `.posterior()` or the "
            "estimator's `from_release`"
        )

    @property
    def predicts(self) -> str | None:
        """Kind of the target; None if any variable can be predicted."""
        return None


class Prior(ABC):
    """Public prior of the quantities that a release estimates."""

    @property
    @abstractmethod
    def over(self) -> Over:
        """The public description that the prior is over."""

    @property
    def accounts(self) -> frozenset[str]:
        """Public ids of the accounts that paid for what it was learned from; empty if it was not."""
        return frozenset()
