"""Naive Bayes: the class is the parent of every feature, and the features are independent given the class.

Any discrete mechanism of the package releases the tables P(class) and P(feature | class); the noise-aware posterior of
the probabilities then classifies, with intervals. `contract.py` has the parts for scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError, shown
from discreet.estimators.columns import EXAMPLE, codes_of, declared_bounds, declared_columns, mixed, variable_codes
from discreet.estimators.contract import (
    ArrayInput,
    PrivateEstimator,
    class_labels,
    columns_of,
    declared_labels,
    generated_names,
    read_features,
    read_inputs,
)
from discreet.estimators.lazy_posterior import LazyPosterior
from discreet.estimators.options import generator_after, require_drawable, whole_number
from discreet.estimators.public_records import ScoredOnPublicRecords
from discreet.estimators.table_input import FitSource, TableInput
from discreet.mechanisms import mechanisms_over
from discreet.mechanisms.crossing import Mechanism, release
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.posterior.methods import noise_aware
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.queries.credible import credible_interval
from discreet.records.counts import Counts, count, count_codes
from discreet.records.records import Records
from discreet.releases.policy import RecordsPolicy
from discreet.releases.release import Release
from discreet.util.arrays import Array, Floats, Positions
from discreet.util.option_texts import DEFAULT_LEVEL

# --------------------------------------------------------------------------------------------------------------------
# Rows of a naive Bayes classifier: each class alone, and with each feature alone.

LEAST_PROBABILITY = 5e-324
"""Probability that replaces zero, which could make a record impossible under every class."""


def class_rows(cells: Tables, star: Sequence[str], labels: Sequence[str], level: float) -> list[dict[str, Any]]:
    """List P(class), and P(class | state of one feature), with intervals over the draws.

    Args:
        cells: probabilities of the class, shape (classes, draws), and of features, shape (classes, states, draws).
        star: the class, then the features.
        labels: classes, in the order of the rows; of two classes only the second is listed.
        level: posterior probability of each interval, between 0 and 1.

    Returns:
        Rows of "feature", "state", both None for the class alone, "class", "mean", "lower", "upper" and "level".

    Raises:
        InputError: a level outside (0, 1).

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ill, wet = dc.Variable("ill", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((ill, wet), {"ill": (), "wet": ("ill",)})
        >>> tables = {"ill": np.full((2, 9), 0.5), "wet": np.full((2, 2, 9), 0.5)}
        >>> row = class_rows(dc.Tables(network, tables, draws=9), ("ill", "wet"), ("no", "yes"), 0.5)[2]
        >>> row["feature"], row["state"], row["class"], float(row["mean"])
        ('wet', 'yes', 'yes', 0.5)
    """
    target, *features = star
    schema = cells.network.schema
    prior = np.asarray(cells[target])
    blocks: list[tuple[str | None, Sequence[str | None], Any]] = [(None, (None,), prior[:, None])]
    for feature in features:
        joint = np.maximum(prior[:, None] * cells[feature], LEAST_PROBABILITY)
        blocks.append((feature, schema[feature].states, joint / joint.sum(axis=0)))
    rows = []
    for name, states, shares in blocks:
        lower, upper = credible_interval(shares, level)
        for code, state in enumerate(states):
            for label in labels[1:] if len(labels) == 2 else labels:
                at = schema[target].code(label), code
                ends = {"lower": float(lower[at]), "upper": float(upper[at]), "level": level}
                rows.append({"feature": name, "state": state, "class": label, "mean": float(shares[at].mean()), **ends})
    return rows


MOST_BINS = 2**20
"""Most bins of all features together: their names and cut points take some 100 MB."""
BLOCK_BYTES = 2**25
"""Bytes of the probabilities of a block of records under all draws."""
UNREADABLE = "map_estimate"
"""Mechanism whose choice among candidates no noise-aware posterior can read."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateNaiveBayes(ScoredOnPublicRecords, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Differentially private naive Bayes classifier for categorical and binned numeric features.

    Args:
        classes: labels that y may hold, all text or all numbers; required.
        features: public variables (`Variable`) with states, or with bounds and perhaps bins. Frames are matched by
            name, arrays by position.
        bounds: `(lower, upper)`, each a number or one for each feature: replaces `features` if all are numeric.
            Features are then called x0, x1, ... in the release. Or a mapping from the names of the columns, which
            thereby are public, to such pairs or to the categories of a column of texts.
        bins: number of equally wide bins of a numeric feature without bins of its own; use fewer with few records or a
            small epsilon.
        mechanism: a name of `MECHANISMS` except "map_estimate", or a mechanism with options, such as
            `planned(workload=...)`. An estimator with options cannot be pickled, but its `release_` can be saved.
        guarantee: what one fit promises and costs; required unless epsilon is given.
        account: pays; required unless epsilon is given. See `PrivateEstimator` for clones and copies.
        epsilon, delta: instead of `guarantee`: a budget for adding or removing one record, charged to the default
            account; with `account`, for that account's relation and unit. See docs/estimators.md, "One line".
        scored_records: whether the records passed to `score` are "private" or "public". On private ones, the default,
            `score` and cross-validation without `scoring` are refused: use `release_score` or `private_scorer`. Metrics
            computed from `predict` are exact, and the package cannot refuse them.
        draws: of the posterior; 1,000 give the ends of a 95 % interval to about 0.1 standard deviations.
        target: name of the class in the release.
        random_state: of the posterior's draws; the noise never comes from it.
        one_record_a_unit: declares that no unit has more than one record, if the guarantee's unit is not "record"; the
            release states that you declared it.

    Attributes:
        release_: safe to publish; `from_release` makes a fitted estimator from it.
        posterior_: draws of all probabilities, computed on first access; `answer` takes it.
        classes_: the declared labels, sorted.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        Each `fit` is one release of the records and promises `guarantee`, by the mechanism's own proof: a record, once
        clipped and binned by public numbers, adds one to one cell of each table. All other results are functions of the
        release. Errors depend on records and are not covered; see docs/threat-model.md.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Section 5, for the model; see also the module of the mechanism.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", promise)
        >>> X, y = np.repeat([[1.0, 5.0], [6.0, 2.0]], 200, axis=0), np.repeat(["small", "large"], 200)
        >>> estimator = dc.estimators.PrivateNaiveBayes(classes=("small", "large"), bounds=(0, 7), bins=3, draws=50,
        ...                                  guarantee=promise, account=account, random_state=0).fit(X, y)
        >>> estimator.predict([[0.5, 6.0], [6.5, 1.0]]).tolist()
        ['small', 'large']
        >>> int(account.balance().epsilon_left)
        0
    """

    classes: Sequence[Any] | None = None
    features: Sequence[Variable] | None = None
    bins: int = 6
    mechanism: str | Mechanism = "planned"
    target: str = "class"

    _metric = staticmethod(accuracy_score)

    def adapt(self, source: FitSource) -> FitSource:
        """Read the variables of `Records` with bins."""
        return source.adapted(lambda variable: _bin(variable, self.bins))

    def _release(self, source: FitSource, guarantee: Guarantee, account: Account) -> None:
        """Count, release, and plan the posterior."""
        mechanism, draws = _make_mechanism(self.mechanism), whole_number(self.draws, "draws", 1)
        posterior = _plan_draws(draws, self.random_state)
        labels = declared_labels(self.classes, source.target_column)
        declared = self._declare_features(source.X)
        numeric = declared is None or mixed(declared) is None
        inputs = read_inputs(self, source, numeric=numeric)
        if isinstance(inputs, TableInput):
            inputs = replace(inputs, columns=inputs.columns if declared is None else declared)
            variables, columns = inputs.columns, np.arange(len(inputs.columns))
        else:
            variables = self._bound_features(inputs.width) if declared is None else declared
            columns = columns_of([variable.name for variable in variables], inputs, by_name=declared is not None)
        require_drawable(draws, len(labels) * (1 + sum(variable.size for variable in variables)))
        network = _make_star(inputs.target or self.target, labels, variables, source.target_column)
        counts = self._count_inputs(network, inputs, columns, labels, mechanism.scopes(network))
        released = release(mechanism, counts, Dirichlet.uniform(network), guarantee, account=account)
        inputs.describe(self)
        self.release_, self.classes_, self._columns, self._posterior = released, labels, columns, posterior

    @classmethod
    def from_release(
        cls, release: Release, *, classes: Sequence[Any] | None = None, draws: int = 1000, random_state: Any = None
    ) -> Self:
        """Build a fitted estimator from a release alone, without records.

        Args:
            release: of a naive-Bayes network, such as the `release_` of another estimator.
            classes: labels whose names are the states of the class; None takes the names themselves.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that predicts, and has no account for another fit.

        Raises:
            InputError: a network of another shape, or labels of other names.
        """
        target, *names = _list_star(release.network)
        root, features = release.network.schema[target], tuple(map(release.network.schema.__getitem__, names))
        labels = class_labels(root.states if classes is None else classes)
        if not _names_classes(root, labels):
            raise InputError(f"the classes of the release are called {', '.join((*root.states, *root.codes)[:12])}")
        estimator = cls(
            classes=tuple(labels.tolist()),
            features=features,
            mechanism=release.mechanism,
            guarantee=release.guarantee,
            draws=draws,
            target=target,
            random_state=random_state,
        )
        estimator.release_, estimator.classes_, estimator._columns = release, labels, np.arange(len(names))
        estimator.n_features_in_ = len(names)
        if tuple(names) != generated_names(len(names)):
            estimator.feature_names_in_ = np.array(names, object)
        estimator._posterior = _plan_draws(whole_number(draws, "draws", 1), random_state)
        return estimator

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> Tables:
        """Draw P(class) and P(feature | class) jointly afresh.

        Args:
            draws: how many.
            random_state: None takes the estimator's own.

        Returns:
            For each variable an array `(class, state, draws)`, that of the class `(class, draws)`.

        Raises:
            InputError: no draws.
        """
        rng = generator_after(self, random_state)
        draws = whole_number(draws, "draws", 1)
        return noise_aware(self.release_, draws=draws, rng=rng, trust_network=True).probabilities

    def predict(self, X: Any) -> Array:
        """Predict the class of the largest posterior mean for each record.

        Args:
            X: as in `fit`; nothing is charged.

        Returns:
            Labels, shape (records,).

        Raises:
            InputError: as `predict_proba`.
        """
        probabilities = self.predict_proba(X)
        labels: Array = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Compute posterior means of P(class | features).

        Args:
            X: as in `fit`; nothing is charged.

        Returns:
            Shape (records, classes), in the order of `classes_`; rows sum to 1.

        Raises:
            InputError: columns other than those of the fit, or a value that is no state.
        """
        (mean,) = self._summarise(X, lambda probabilities: (probabilities.mean(axis=-1),))
        return mean

    def predict_interval(self, X: Any, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of P(class | features), which include the sampling error and the noise.

        They assume the model: if features depend on each other given the class, they are too narrow.

        Args:
            X: as in `fit`.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records, classes) each: equal-tailed, unless the posterior is densest at 0 or 1; see
            `credible_interval`.

        Raises:
            InputError: as `predict_proba`, or a level outside (0, 1).
        """
        lower, upper = self._summarise(X, lambda probabilities: credible_interval(probabilities, level))
        return lower, upper

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List P(class), and P(class | state) for each feature alone; see `class_rows`, also for the errors."""
        labels = [str(label) for label in self.classes_.tolist()]
        return class_rows(self.posterior_.probabilities, _list_star(self.release_.network), labels, level)

    def __sklearn_tags__(self) -> Tags:
        """Mark that columns of texts are read if they are declared."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.categorical = any(not feature.numeric for feature in _read_variables(self.features))
        tags.input_tags.string = tags.input_tags.categorical
        return tags

    # ------------------------------------------------------------------------------------------------ features

    def _count_inputs(
        self,
        network: Network,
        inputs: ArrayInput | TableInput,
        columns: Positions,
        labels: Array,
        scopes: Iterable[Scope],
    ) -> Counts:
        """Count records in memory, or a table in place."""
        if isinstance(inputs, TableInput):
            target, *_ = _list_star(network)
            return count(inputs.records(inputs.columns, network.schema[target]), network, tuple(scopes))
        counts = _count_codes(network, inputs.X[:, columns], inputs.y, labels, scopes)
        return replace(counts, policy=RecordsPolicy(inputs.missing, "clip", one_record_a_unit=self.one_record_a_unit))

    def _declare_features(self, X: Any) -> tuple[Variable, ...] | None:
        """List the declared features; None if a pair of bounds or the schema of `Records` replaces them."""
        if isinstance(X, Records) and self.features is None and self.bounds is None:
            return None
        if (self.features is None) == (self.bounds is None):
            raise InputError(
                "fit needs features=(Variable(...), ...) or bounds=(lower, upper), or by column, such as "
                f"{EXAMPLE}, and not both; the values of a column are never read off the records"
            )
        if self.bounds is not None and not isinstance(self.bounds, Mapping):
            return None
        features = _read_variables(self.features) if self.bounds is None else declared_columns(self.bounds)
        if not features:
            raise InputError("features must list Variable(name, states) and Variable(name, bounds=..., bins=...)")
        _require_room(self.bins, sum(feature.numeric and feature.size < 2 for feature in features))
        return tuple(_bin(feature, self.bins) for feature in features)

    def _bound_features(self, width: int) -> tuple[Variable, ...]:
        """Make numeric features between the bounds, as many as there are columns."""
        _require_room(self.bins, width)
        names = generated_names(width)
        pairs = declared_bounds(self.bounds, width)
        return tuple(_bin(Variable(name, bounds=pair), self.bins) for name, pair in zip(names, pairs, strict=True))

    # ------------------------------------------------------------------------------------------------ prediction

    def _summarise(self, X: Any, summary: Callable[[Floats], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        """Apply a summary over draws to each record; equal records are computed once."""
        check_is_fitted(self, "release_")
        network = self.release_.network
        target, *names = _list_star(network)
        variables = tuple(map(network.schema.__getitem__, names))
        X = read_features(self, X, numeric=mixed(variables) is None, columns=mixed(variables))
        codes = _code_features(variables, X[:, self._columns])
        distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
        order = np.array([network.schema[target].code(str(label)) for label in self.classes_])
        summaries = [summary(block[:, order]) for block in _classify_blocks(self.posterior_.probabilities, distinct)]
        return tuple(np.concatenate(values)[inverse.reshape(-1)] for values in zip(*summaries, strict=True))


def _plan_draws(draws: int, random_state: Any) -> LazyPosterior:
    """Plan the posterior of the naive Bayes network, which the estimator assumes."""
    return LazyPosterior(draws, random_state, trust_network=True)


def _classify_blocks(cells: Tables, codes: Positions) -> Iterator[Floats]:
    """Compute P(class | features) under each draw: `pi_c prod_f theta_f[c, x_f]`, normalised over the classes.

    Logarithms are added: with a learned prior, products of a few dozen entries underflow.

    Args:
        cells: probabilities, shape `(class, draws)` and `(class, state, draws)`.
        codes: of the features, shape (records, features).

    Yields:
        Shape (records, classes, draws), for block after block of records.
    """
    target, *names = _list_star(cells.network)
    prior = np.log(np.maximum(cells[target], LEAST_PROBABILITY))
    logs = [np.ascontiguousarray(np.log(np.maximum(cells[name], LEAST_PROBABILITY)).swapaxes(0, 1)) for name in names]
    size = max(1, BLOCK_BYTES // prior.nbytes)
    for start in range(0, len(codes), size):
        block = np.repeat(prior[None], len(codes[start : start + size]), axis=0)
        for log, code in zip(logs, codes[start : start + size].T, strict=True):
            block += log[code]
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)
        yield block


# -------------------------------------------------------------------------------------------------------- the network


def _make_star(target: str, labels: Array, variables: Sequence[Variable], declared: Variable | None) -> Network:
    """Make the network in which the class is the parent of every feature; a declared class may have codes."""
    if declared is not None and not _names_classes(declared, labels):
        raise InputError(f"classes and the declared states of column {shown(declared.name)} differ")
    variable = declared or Variable(target, tuple(map(str, labels.tolist())))
    parents: dict[str, tuple[str, ...]] = {each.name: (variable.name,) for each in variables}
    return Network((variable, *variables), {**parents, variable.name: ()})


def _names_classes(variable: Variable, labels: Array) -> bool:
    """True if labels are the states of a variable, by name or by code."""
    return sorted(map(str, labels.tolist())) in (sorted(variable.states), sorted(variable.held))


def _list_star(network: Network) -> list[str]:
    """List the class, then the features in their order."""
    roots = [name for name in network.nodes if not network.parents[name]]
    rest = [name for name in network.nodes if name not in roots[:1]]
    if not rest or any(network.parents[name] != (roots[0],) for name in rest):
        raise InputError("the network of the release is no naive Bayes: one node must be the only parent of all others")
    return [roots[0], *rest]


def _read_variables(features: Any) -> tuple[Variable, ...]:
    """List declared features; none if any is of another type, which `fit` refuses."""
    listed = tuple(features) if isinstance(features, Iterable) else ()
    return listed if all(isinstance(feature, Variable) for feature in listed) else ()


def _bin(feature: Variable, bins: int) -> Variable:
    """Give a numeric feature without cut points equally wide bins."""
    if feature.bounds is None or feature.size > 1:
        return feature
    _require_room(bins, 1)
    if feature.whole:
        return replace(feature, bins=Variable.binned(feature.name, feature.bounds, bins, type="integer").bins)
    return replace(feature, bins=tuple(np.linspace(*feature.bounds, bins + 1)[1:-1].tolist()))


def _require_room(bins: Any, features: int) -> None:
    """Refuse an invalid number of bins, or too many for memory, if features are to be cut."""
    if features:
        whole_number(bins, "bins", 2, MOST_BINS // features)


def _make_mechanism(mechanism: Any) -> Mechanism:
    """Make the mechanism of a name, or return a mechanism unchanged."""
    read = {name: entry for name, entry in mechanisms_over("network").items() if name != UNREADABLE}
    if isinstance(mechanism, str) and mechanism in read:
        # The class is in every table, and the classifier assumes that features are independent given it.
        mechanism = read[mechanism](pairs_share=0) if mechanism == "planned" else read[mechanism]()
    if not isinstance(mechanism, Mechanism) or mechanism.name not in read:
        names = ", ".join(read)
        raise InputError(f"mechanism must be one of {names}, or a mechanism made by a function of that name")
    return mechanism


# -------------------------------------------------------------------------------------------------------- records


def _count_codes(network: Network, X: Array, y: Any, labels: Array, scopes: Iterable[Scope]) -> Counts:
    """Count the class with every feature; numbers out of bounds are in the outer bins."""
    target, *names = _list_star(network)
    shown = ", ".join(network.schema[target].states[:12])
    refusal = f"Unknown label type: y holds a label that is none of the declared classes: {shown}"
    classes = codes_of(y, {label: code for code, label in enumerate(labels.tolist())}, refusal)
    features = _code_features(tuple(map(network.schema.__getitem__, names)), X)
    codes: Mapping[str, Positions] = {target: classes, **dict(zip(names, features.T, strict=True))}
    return count_codes(network, codes, scopes)


def _code_features(variables: Sequence[Variable], X: Array) -> Positions:
    """Find positions of bins and states, shape (records, features)."""
    codes = np.empty(X.shape, np.intp)
    for position, variable in enumerate(variables):
        codes[:, position] = variable_codes(variable, X[:, position])
    return codes
