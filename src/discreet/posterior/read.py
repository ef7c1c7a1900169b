"""The one front door: from anything that was released to its posterior, by the reader that its kind has.

`READERS` is the one list of readers. It says what each reads, what it costs and what it gives, and loads none of their
modules until one is asked. A reader of another kind of payload is one function beside its posterior and one entry here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from discreet.errors import InputError, listed, shown
from discreet.posterior.protocol import Posterior
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.document import Document
from discreet.releases.external_figures import External
from discreet.releases.kinds.audited_tables import AuditedTables
from discreet.releases.kinds.candidate_choice import Choice
from discreet.releases.kinds.chosen_network import ChosenNetwork
from discreet.releases.kinds.factored_choice import FactoredChoice
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.kinds.noisy_contrasts import NoisyCoefficients
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.releases.kinds.noisy_sums import GroupedMoments, NoisyMoments
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.parameter_draws import ParameterDraws
from discreet.releases.kinds.scored_choice import ScoredChoice
from discreet.releases.kinds.two_stages import TwoStageCounts
from discreet.releases.kinds.weight_draws import WeightDraws
from discreet.util.randomness import Seed, as_generator

Gives = Literal["network", "family", "states", "weights", "structure"]
"""What a release answers with: probabilities of a network, also of a family's parameters, or of the states of one
variable; numbers with names, such as coefficients; a network that was chosen, and nothing else."""


@dataclass(frozen=True)
class Reader:
    """One way from what was released to a posterior.

    Args:
        name: the word for `method`.
        gives: what its posterior answers with.
        cost: of reading, in words.
        home: module of `posterior` and function, which takes the evidence, `draws`, `rng` and the options.
        kinds: of payload that it reads, or figures by others.
        only: says which payloads of these kinds, given all of them; None for any.
        options: words that it takes beside `draws` and `rng`.
        method: of `noise_aware`; "" for a function that has no such option.

    Example:
        >>> find_reader("moments").cost
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

    def reads(self, evidence: Evidence) -> bool:
        """Whether all that was released is of its kinds."""
        payloads = [getattr(part, "payload", part) for part in evidence.parts]
        known = all(isinstance(payload, self.kinds) for payload in payloads)
        return known and (self.only is None or self.only(payloads))

    def read(self, evidence: Evidence, *, draws: int, rng: Seed, **options: Any) -> Posterior:
        """Draw the posterior; arguments, result and errors as of `discreet.read`."""
        strange = [name for name in options if name not in self.options]
        if strange:
            takes = f"takes {', '.join(self.options)}" if self.options else "takes no options"
            raise InputError(f"this release is read by the method {self.name!r}, which {takes}, not {listed(strange)}")
        fixed = {"method": self.method} if self.method else {}
        module, _, function = self.home.partition(":")
        found: Posterior = getattr(importlib.import_module(f"discreet.posterior.{module}"), function)(
            evidence, draws=draws, rng=as_generator(rng), **fixed, **options
        )
        return found


def _is_direction(payloads: Sequence[Any]) -> bool:
    """Whether directions were chosen."""
    return all(payload.kind == "direction" for payload in payloads)


def _is_of_states(payloads: Sequence[Any]) -> bool:
    """Whether probabilities of a variable's states were chosen."""
    return all(payload.kind == "categorical" for payload in payloads)


def _is_own(payloads: Sequence[Any]) -> bool:
    """Whether something was chosen by a score of the curator's own."""
    return all(payload.kind == "own" for payload in payloads)


def _predicts(payloads: Sequence[Any]) -> bool:
    """Whether sums are of a target, too."""
    return all(payload.design.target is not None for payload in payloads)


def _predicts_nothing(payloads: Sequence[Any]) -> bool:
    """Whether sums are of features alone."""
    return not _predicts(payloads)


def _is_one_family(payloads: Sequence[Any]) -> bool:
    """Whether draws are of one family's parameters, with one grid and prior."""
    first, *others = (payload.table_of_scores for payload in payloads)
    return first.log_law is not None and all(first.same_family(other) for other in others)


TABLES = (NoisyCounts, NoisyTables, AuditedTables, NoisyCoefficients, TwoStageCounts, External)
"""What was measured by the states of a network's variables, with noise."""
OVER_NETWORKS = (*TABLES, ParameterDraws, Choice, ScoredChoice)
"""What `noise_aware` reads."""
OF_NETWORKS = ("prior", "trust_network", "progress")
"""Its options."""
NETWORK, WEIGHTS, COMPONENTS = "methods:noise_aware", "design.weight_posterior:", "design.components:"

READERS = (
    Reader("noise-aware", "family", "a second", NETWORK, (ScoredChoice,), _is_one_family, OF_NETWORKS, "auto"),
    Reader("noise-aware", "network", "that of the next that can", NETWORK, OVER_NETWORKS, None, OF_NETWORKS, "auto"),
    Reader("exact", "network", "thousands of sweeps over records", NETWORK, TABLES, None, OF_NETWORKS, "exact"),
    Reader("pooled", "network", "seconds, when it is asked", NETWORK, TABLES, None, OF_NETWORKS, "pooled"),
    Reader("particles", "network", "seconds", NETWORK, (ParameterDraws,), None, OF_NETWORKS, "particles"),
    Reader("choice", "network", "seconds to minutes", NETWORK, (Choice, ScoredChoice), None, OF_NETWORKS, "choice"),
    Reader("family", "network", "a second", NETWORK, (ScoredChoice,), _is_one_family, OF_NETWORKS, "family"),
    Reader("sequential", "network", "each data set's", NETWORK, OVER_NETWORKS, None, OF_NETWORKS, "sequential"),
    Reader("parameters", "family", "a second", "family_draws:draw_parameters", (ScoredChoice,), _is_one_family),
    Reader("structure", "structure", "nothing", NETWORK, (ChosenNetwork,)),
    Reader("moments", "weights", "nothing", WEIGHTS + "read_moments", (NoisyMoments, GroupedMoments), _predicts),
    Reader("exact", "weights", "seconds; refused with much noise", WEIGHTS + "resample", (NoisyMoments,), _predicts),
    Reader(
        "gradients",
        "weights",
        "nothing with a curvature, else seconds",
        WEIGHTS + "read_gradients",
        (GradientTrace,),
        options=("covariates", "public"),
    ),
    Reader("released", "weights", "nothing", WEIGHTS + "take_draws", (WeightDraws,)),
    Reader(
        "direction", "weights", "seconds", WEIGHTS + "read_direction", (FactoredChoice,), _is_direction, ("likelihood",)
    ),
    Reader("components", "weights", "seconds", COMPONENTS + "component_draws", (NoisyMoments,), _predicts_nothing),
    Reader("components", "weights", "seconds", COMPONENTS + "direction_components", (FactoredChoice,), _is_direction),
    Reader("choice", "states", "a second", "choices:coin_posterior", (FactoredChoice,), _is_of_states, ("prior",)),
    Reader(
        "laws",
        "weights",
        "seconds to minutes",
        "own_choices:draw_law_weights",
        (FactoredChoice,),
        _is_own,
        ("score", "make_up", "prior"),
    ),
)
"""Every reader; of those that read the same the one that is taken by itself stands first."""


def find_reader(name: str) -> Reader:
    """The first reader of a name."""
    return next(reader for reader in READERS if reader.name == name)


def readers_of(evidence: Evidence) -> tuple[Reader, ...]:
    """Readers of some evidence, the one that is taken by itself first.

    Args:
        evidence: a release, figures by others, or several of them.

    Raises:
        InputError: something else.
    """
    if not isinstance(evidence, Document):
        evidence_of(evidence)
    return tuple(reader for reader in READERS if reader.reads(evidence))


def what_it_gives(evidence: Evidence) -> Gives:
    """What some evidence answers with, whoever reads it by itself."""
    able = readers_of(evidence)
    if not able:
        raise InputError("nothing reads this release: its kind has no reader")
    return able[0].gives


def read(evidence: Evidence, *, method: str = "auto", draws: int = 1000, rng: Seed = None, **options: Any) -> Any:
    """Read what was released, whatever it is: draws that count the sampling error and the privacy noise.

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
        >>> figures = dc.measured([52, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> posterior = dc.read(figures, draws=400, rng=1)
        >>> posterior.method, posterior.draws
        ('pooled', 400)
        >>> row = posterior.rows(level=0.9)[0]
        >>> row["state"], row["lower"] < row["mean"] < row["upper"]
        ('heads', True)
    """
    able = readers_of(evidence)
    reader = next((one for one in able if method in ("auto", one.name)), None)
    if reader is None:
        names = ", ".join(one.name for one in able)
        raise InputError(f"method {shown(method)} cannot read this evidence; there is: {names}")
    if not draws > 0:
        raise InputError(f"a posterior needs at least one draw, got {draws}")
    return reader.read(evidence, draws=draws, rng=rng, **options)
