"""Entry point `read`: from any release to its posterior, by the reader of its kind.

`READERS` is the package's only list of readers. An entry states which payloads a reader reads, its cost and its kind of
answers; its module is loaded at first use. To support another payload, add one function beside its posterior and one
entry here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from discreet.errors import InputError, listed, require, shown
from discreet.posterior.protocol import Posterior
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.document import Document
from discreet.releases.external_figures import External
from discreet.releases.kinds.chosen_network import ChosenNetwork
from discreet.releases.measurement import MeasuredTables
from discreet.releases.release import Release
from discreet.util.arrays import Floats
from discreet.util.pack_entries import of_packs
from discreet.util.randomness import Seed, as_generator

Gives = Literal["network", "family", "states", "weights", "structure"]
"""Kind of answers of a release: probabilities of a network, or also of a family's parameters, or of the states of one
variable; named numbers, such as coefficients; or only the structure of a chosen network."""


@dataclass(frozen=True)
class Way:
    """Method of `noise_aware`; functions are named as dotted module, colon, name.

    Args:
        draw: function that draws the posterior of a `DrawTask`, given its generator and a progress function.
        across: whether it reads several data sets at once.
        trusts: whether it assumes the public network's independences even against the tables.
        own_prior: whether the drawn quantities have their own prior, so that none can be passed.
        eager: function that draws at once if that takes seconds, and else returns None; "" if there is none.
    """

    draw: str
    across: bool = False
    trusts: bool = False
    own_prior: bool = False
    eager: str = ""


@dataclass(frozen=True)
class Reader:
    """Registry entry of a reader: the payloads that it reads, and the function that draws their posterior.

    Args:
        name: name of the method, as passed to `read`.
        gives: kind of answers of its posterior.
        cost: cost of reading, in words.
        home: dotted module, colon, function; it takes the evidence, `draws`, `rng` and the options.
        kinds: types of payload, or of external figures, that it reads.
        only: condition on all payloads of these types; None accepts any.
        options: names of the options that it takes beside `draws` and `rng`.
        method: `method` that is passed to `noise_aware`; "" for functions without this option.
        quick: function in the same module that computes posterior means of a release without draws; "" if there is
            none.
        way: how `noise_aware` draws by this method; None for other readers.
        plain: function that takes the released numbers without regard to noise, for `plug_in`; "" if counts are fitted.
        general: whether it also reads what special readers do, which are preferred.
        restore: function of stored draws, their evidence, their fit check and what was stored beside them (`more`),
            which makes the posterior of a file; "" if `noise_aware` makes it.

    Example:
        >>> next(reader for reader in READERS if reader.name == "pooled").cost
        'seconds'
    """

    name: str
    gives: Gives
    cost: str
    home: str
    kinds: tuple[type, ...]
    only: Callable[[Sequence[Any]], bool] | None = None
    options: tuple[str, ...] = ()
    method: str = ""
    quick: str = ""
    way: Way | None = None
    plain: str = ""
    general: bool = False
    restore: str = ""

    def reads(self, evidence: Evidence) -> bool:
        """True if the reader accepts all parts of the evidence.

        Each payload is of its `kinds`, and `only`, if there is one, accepts them all together. External figures have no
        payload and stand for themselves.
        """
        payloads = [getattr(source, "payload", source) for source in evidence.parts]
        known = all(isinstance(payload, self.kinds) for payload in payloads)
        return known and (self.only is None or self.only(payloads))

    def read(self, evidence: Evidence, *, draws: int, rng: Seed, **options: Any) -> Posterior:
        """Draw the posterior by the reader's function; the reader's module is loaded here.

        The function gets the evidence, `draws`, a generator, this reader's `method` if it has one, and the options.

        Args:
            evidence: evidence that this reader accepts, which is not checked.
            draws: number of joint draws, not checked here.
            rng: seed or generator; None takes a new seed.
            options: options of the reader.

        Raises:
            InputError: an option that is not among `options` of the reader; errors of its function are passed on.
        """
        unknown = [name for name in options if name not in self.options]
        if unknown:
            takes = f"takes {', '.join(self.options)}" if self.options else "takes no options"
            raise InputError(f"this release is read by the method {self.name!r}, which {takes}, not {listed(unknown)}")
        fixed = {"method": self.method} if self.method else {}
        draw = load_function(self.home)
        return cast(Posterior, draw(evidence, draws=draws, rng=as_generator(rng), **fixed, **options))


def load_function(home: str) -> Callable[..., Any]:
    """Import a function by its dotted module, a colon and its name; ImportError or AttributeError if missing."""
    module, _, function = home.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return loaded


def _is_poolable(payloads: Sequence[Any]) -> bool:
    """True if the tables of all payloads together are small enough to be pooled (`pooled.measured.is_poolable`)."""
    measured = [datum for payload in payloads for datum in payload.measurements]
    return bool(load_function("discreet.posterior.pooled.measured:is_poolable")(measured))


TABLES = (MeasuredTables, External)
"""Payload types of noisy measurements over the states of a network's variables."""
OPTIONS = ("prior", "trust_network", "progress")
"""Options of the readers of a network."""
HERE = "discreet.posterior."
NETWORK = f"{HERE}methods:noise_aware"
POOLED, SEQUENTIAL = Way(f"{HERE}methods:draw_pooled"), Way(f"{HERE}methods:draw_sequentially", across=True)

READERS = (
    Reader("noise-aware", "network", "that of the next that can", NETWORK, TABLES, None, OPTIONS, "auto"),
    Reader("pooled", "network", "seconds", NETWORK, TABLES, _is_poolable, OPTIONS, "pooled", "", POOLED),
    Reader("sequential", "network", "each data set's", NETWORK, TABLES, None, OPTIONS, "sequential", "", SEQUENTIAL),
    Reader("structure", "structure", "nothing", NETWORK, (ChosenNetwork,)),
)
"""The package's readers; of those that read the same payload the default comes first."""


def every_reader() -> tuple[Reader, ...]:
    """List the readers of the package, then those of installed packs, by name of the pack; general ones come last.

    A pack that cannot be loaded is skipped with a warning.
    """
    return tuple(sorted((*READERS, *of_packs("discreet.readers")), key=lambda reader: reader.general))


def readers_of(evidence: Evidence) -> tuple[Reader, ...]:
    """List the readers that accept some evidence, the default first.

    Readers of the package come first, then those of installed packs, and last the general ones, which also read what
    others do.

    Args:
        evidence: a release, external figures, or several of them put together.

    Returns:
        At least one reader.

    Raises:
        InputError: an object of another type, or evidence that no reader accepts.
    """
    if not isinstance(evidence, Document):
        evidence_of(evidence)
    suitable = tuple(reader for reader in every_reader() if reader.reads(evidence))
    require(bool(suitable), "nothing reads this release: its kind has no reader")
    return suitable


def is_read_by(name: str, evidence: Evidence) -> bool:
    """True if some evidence has a reader of this name; evidence without any reader raises an InputError."""
    return any(reader.name == name for reader in readers_of(evidence))


def quick_estimate(release: Release) -> Floats:
    """Compute posterior means of a regression's weights directly, without draws, where a reader can.

    Args:
        release: noisy moments, draws of weights, or gradients. Gradients without a curvature, or of a design with
            groups, whose weights are many, give the released weights.

    Returns:
        Shape (size,), in the coordinates of what the release is over.

    Raises:
        InputError: a release that no reader reads, or whose default reader computes no such means.
    """
    reader = readers_of(release)[0]
    require(bool(reader.quick), "this release is not of a regression: it holds no moments, draws or gradients of one")
    return np.asarray(load_function(f"{reader.home.partition(':')[0]}:{reader.quick}")(release))


def posterior_kind(evidence: Evidence) -> Gives:
    """Return the kind of answers that the default reader of some evidence gives; InputError if nothing reads it."""
    return readers_of(evidence)[0].gives


def read(evidence: Evidence, *, method: str = "auto", draws: int = 1000, rng: Seed = None, **options: Any) -> Any:
    """Draw the posterior of a release of any kind; it accounts for sampling error and privacy noise.

    Args:
        evidence: a release of any kind, external figures (`measured`), or several of them put together by `combine`.
        method: "auto" takes the default reader of the release. Others are, over a network, those of `noise_aware`;
            "parameters" for a family, "exact" for the moments of a regression, "components" for a direction.
        draws: number of joint draws; for a choice by a custom score, of simulated data sets for each law. Released
            draws of weights are returned as they are.
        rng: seed or generator; it is not secret. The same seed gives the same draws.
        options: options of the method. Over a network `prior`, `trust_network` and `progress`, as for `noise_aware`;
            for the states of one variable `prior`. For gradients of two classes `covariates`, the features' law, if the
            release has no curvature, and `public`, labelled `PublicRecords`; for a direction `likelihood`. For a choice
            by a custom score `score`, the same `OwnFactor`, `make_up(law, records, rng)`, which simulates records of a
            law, and `prior`, the prior probabilities of the laws.

    Returns:
        A `Posterior`: over a network `PosteriorDraws`, over a design `WeightPosterior` or `ComponentPosterior`, for
        parameters `FamilyPosterior`, for laws `LawWeights`.

    Raises:
        InputError: no evidence, a method or an option that does not apply to it, no draws, or a missing option that the
            reader needs. A chosen network has no posterior.
        DiscreetError: chains that have not mixed, or simulations that hardly ever match the release.

    Guarantee:
        No budget is spent; only the release and the options are read.

    Source:
        Williams and McSherry (NIPS 2010), equation 3, for noise in the likelihood. The documentation's page on reading
        describes each method.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> figures = dc.external_table([52, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> posterior = dc.read(figures, draws=400, rng=1)
        >>> posterior.method, posterior.draws
        ('pooled', 400)
        >>> row = posterior.rows(level=0.9)[0]
        >>> row["state"], row["lower"] < row["mean"] < row["upper"]
        ('heads', True)
    """
    suitable = readers_of(evidence)
    reader = next((candidate for candidate in suitable if method in ("auto", candidate.name)), None)
    if reader is None:
        names = ", ".join(candidate.name for candidate in suitable)
        raise InputError(f"method {shown(method)} cannot read this evidence; there is: {names}")
    require(draws > 0, f"a posterior needs at least one draw, got {draws}")
    return reader.read(evidence, draws=draws, rng=rng, **options)
