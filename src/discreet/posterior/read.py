"""Entry point `read`: from any release to its posterior, by the reader of its kind.

`READERS` is the one list of readers. It says what each reads, what it costs and what it gives, and loads none of their
modules until one is asked. A reader of another kind of payload is one function beside its posterior and one entry here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from discreet.errors import InputError, listed, require, shown
from discreet.posterior.protocol import Posterior
from discreet.releases import kinds as held
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.document import Document
from discreet.releases.external_figures import External
from discreet.releases.measurement import MeasuredTables
from discreet.releases.release import Release
from discreet.util.arrays import Floats
from discreet.util.pack_entries import of_packs
from discreet.util.randomness import Seed, as_generator

Gives = Literal["network", "family", "states", "weights", "structure"]
"""Kind of answers of a release: probabilities of a network, also of a family's parameters, or of the states of one
variable; numbers with names, such as coefficients; a network that was chosen, and nothing else."""


@dataclass(frozen=True)
class Way:
    """Method of `noise_aware`; functions are named as dotted module, colon, name.

    Args:
        draw: home of what makes the posterior of a `Reading`, given its generator and whom to tell of progress.
        across: whether it reads several data sets at once.
        trusts: whether it believes the public network whatever the tables say.
        own_prior: whether what is drawn has a prior of its own, so that none can be given.
        eager: home of what draws at once where that is a matter of seconds, else gives None; "" where nothing does.
    """

    draw: str
    across: bool = False
    trusts: bool = False
    own_prior: bool = False
    eager: str = ""


@dataclass(frozen=True)
class Reader:
    """Registry entry of a reader: the kinds of release that it reads, and the function that does.

    Args:
        name: the word for `method`.
        gives: what its posterior answers with.
        cost: of reading, in words.
        home: dotted module, a colon and the function, which takes the evidence, `draws`, `rng` and the options.
        kinds: of payload that it reads, or figures by others.
        only: says which payloads of these kinds, given all of them; None for any.
        options: words that it takes beside `draws` and `rng`.
        method: of `noise_aware`; "" for a function that has no such option.
        quick: function beside it, of the release alone: the means at once; "" where there is none.
        way: how `noise_aware` draws by this method; None of others.
        plain: dotted home of what takes the released numbers as they are, for `plug_in`; "" where counts are fitted.

    Example:
        >>> next(reader for reader in READERS if reader.name == "moments").cost
        'nothing'
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

    def reads(self, evidence: Evidence) -> bool:
        """True if all parts of the evidence are of the reader's kinds."""
        payloads = [getattr(source, "payload", source) for source in evidence.parts]
        known = all(isinstance(payload, self.kinds) for payload in payloads)
        return known and (self.only is None or self.only(payloads))

    def read(self, evidence: Evidence, *, draws: int, rng: Seed, **options: Any) -> Posterior:
        """Draw the posterior; arguments, result and errors as of `discreet.read`."""
        unknown = [name for name in options if name not in self.options]
        if unknown:
            takes = f"takes {', '.join(self.options)}" if self.options else "takes no options"
            raise InputError(f"this release is read by the method {self.name!r}, which {takes}, not {listed(unknown)}")
        fixed = {"method": self.method} if self.method else {}
        draw = load_function(self.home)
        return cast(Posterior, draw(evidence, draws=draws, rng=as_generator(rng), **fixed, **options))


def load_function(home: str) -> Callable[..., Any]:
    """Load a function by its dotted module, a colon and its name."""
    module, _, function = home.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return loaded


def _predicts(payloads: Sequence[Any]) -> bool:
    """True if sums include products with a target."""
    return all(payload.design.target is not None for payload in payloads)


def _is_poolable(payloads: Sequence[Any]) -> bool:
    """True if tables are small enough to be pooled."""
    measured = [datum for payload in payloads for datum in payload.measurements]
    return bool(load_function("discreet.posterior.pooled.measured:is_poolable")(measured))


TABLES = (MeasuredTables, External)
"""Payload kinds of noisy measurements over the states of a network's variables."""
MOMENTS, GRADIENTS = (held.NoisyMoments, held.GroupedMoments), (held.GradientTrace,)
"""Payload kinds of a regression."""
ONE_SCALE = (held.NoisyMoments,)
"""Payload kinds of moments with noise of one scale."""
OPTIONS = ("prior", "trust_network", "progress")
"""Options of a network's readers."""
KNOWN = ("covariates", "public")
"""Options of the reader of gradients: other knowledge."""
HERE = "discreet.posterior."
NETWORK, WEIGHTS = f"{HERE}methods:noise_aware", f"{HERE}design.weight_posterior:"
POOLED, SEQUENTIAL = Way(f"{HERE}methods:draw_pooled"), Way(f"{HERE}methods:draw_sequentially", across=True)

READERS = (
    Reader("noise-aware", "network", "that of the next that can", NETWORK, TABLES, None, OPTIONS, "auto"),
    Reader("pooled", "network", "seconds", NETWORK, TABLES, _is_poolable, OPTIONS, "pooled", "", POOLED),
    Reader("sequential", "network", "each data set's", NETWORK, TABLES, None, OPTIONS, "sequential", "", SEQUENTIAL),
    Reader("structure", "structure", "nothing", NETWORK, (held.ChosenNetwork,)),
    Reader("moments", "weights", "nothing", WEIGHTS + "read_moments", MOMENTS, _predicts, quick="estimate_moments"),
    Reader("exact", "weights", "seconds; refused with much noise", WEIGHTS + "resample", ONE_SCALE, _predicts),
    Reader(
        "gradients", "weights", "seconds", WEIGHTS + "read_gradients", GRADIENTS, None, KNOWN, "", "estimate_gradients"
    ),
)
"""The package's readers; of those that read the same kind the default stands first."""


def every_reader() -> tuple[Reader, ...]:
    """List the readers of the package, then those of packs."""
    return (*READERS, *of_packs("discreet.readers"))


def readers_of(evidence: Evidence) -> tuple[Reader, ...]:
    """List the readers of some evidence, the default first.

    Args:
        evidence: a release, figures by others, or several of them.

    Raises:
        InputError: something else.
    """
    if not isinstance(evidence, Document):
        evidence_of(evidence)
    suitable = tuple(reader for reader in every_reader() if reader.reads(evidence))
    require(bool(suitable), "nothing reads this release: its kind has no reader")
    return suitable


def is_read_by(name: str, evidence: Evidence) -> bool:
    """True if some evidence has a reader of this name."""
    return any(reader.name == name for reader in readers_of(evidence))


def quick_estimate(release: Release) -> Floats:
    """Compute posterior means of a regression's weights directly, without draws.

    Args:
        release: of noisy moments, of draws of weights, or of gradients: where these have no curvature, or groups so
            that weights are many, the released weights themselves.

    Returns:
        Shape (size,), in the design's coordinates.

    Raises:
        InputError: a release of something else.
    """
    reader = readers_of(release)[0]
    require(bool(reader.quick), "this release is not of a regression: it holds no moments, draws or gradients of one")
    return np.asarray(load_function(f"{reader.home.partition(':')[0]}:{reader.quick}")(release))


def what_it_gives(evidence: Evidence) -> Gives:
    """Return the kind of answer that the default reader of some evidence gives."""
    return readers_of(evidence)[0].gives


def read(evidence: Evidence, *, method: str = "auto", draws: int = 1000, rng: Seed = None, **options: Any) -> Any:
    """Read a release of any kind: draw its posterior, which includes sampling error and privacy noise.

    Args:
        evidence: a release of any kind, figures by others (`measured`), or what `combine` made of several.
        method: "auto" takes what the release is read by; others, where there are some, are those of `noise_aware` over
            a network, "parameters" of a family, "exact" of the moments of a regression, "components" of a direction.
        draws: number of joint draws; of a choice by a score of one's own made-up data sets of each law. Released draws
            of weights are returned as they are.
        rng: seed or generator; nothing here is private. The same seed gives the same draws.
        options: by the method. Over a network `prior`, `trust_network` and `progress`, as of `noise_aware`; of the
            probabilities of one variable's states `prior`. Of gradients of two classes `covariates`, the features' law,
            where the release has no curvature, and `public`, labelled `PublicRecords`; of a direction `likelihood`. Of
            a choice by a score of one's own `score`, the same `OwnFactor`, `make_up(law, records, rng)`, which makes
            up records of a law, and `prior`, the laws' probabilities before the choice.

    Returns:
        A `Posterior`: over a network `PosteriorDraws`, over a design `WeightPosterior` or `ComponentPosterior`, of
        parameters `FamilyPosterior`, of laws `LawWeights`.

    Raises:
        InputError: no evidence, a method or an option that it is not read by, no draws, or what the reader needs beside
            the release and was not given. A network that was chosen has no posterior.
        DiscreetError: chains that do not mix, or hardly anything that explains what was released.

    Guarantee:
        None spent: reads what was released, and what else is given, alone.

    Source:
        Williams and McSherry (NIPS 2010), equation 3: the noise is in the likelihood. The documentation's page on
        reading has each method.

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
