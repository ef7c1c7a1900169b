"""Differentially private Bayesian inference for probabilistic graphical models.

A curator turns a private table and a public network into a release that is safe to publish:

    records = read_records("patients.parquet", network.schema)
    made = release(planned(), count(records, network), Dirichlet.uniform(network), promise, account=account)
    made.save("release.json")

Anybody turns a release into a posterior and asks it questions; every interval counts both the sampling error and the
privacy noise:

    load("release.json").posterior().answer("P(lung | smoke=yes)")

The names at the top, by task:

    describe     Variable, Schema, Network, Tables, Dirichlet (the prior)
    records      read_records, check, count
    pay          Guarantee, Relation, Ledger
    discover     domain finds states, bounds and bins of a private table
    release      release; simulate for made-up records, with a seed
    mechanisms   planned is the default; laplace and gaussian add noise to counts; structure chooses arcs
    read         load, Release, combine, external_table; read or `.posterior()` for draws of whatever was released,
                 noise_aware with all options of a network, estimate for means, check_fit to test the network
    ask          answer, answer_many, marginals, predict, regress, decide, explain, sample; report
    compare      plan, plan_accuracy, audit
    errors       DiscreetError, InputError, BudgetError

Names of classes are things; functions are acts, or make what they name (`planned()` makes the mechanism of that name).
Functions that draw random numbers take `rng`: a seed or a NumPy generator gives the same numbers again. What the names
at the top need beside them is in few modules:

    decisions    payoffs, losses of numbers, sequences of questions
    external     figures that others measured, and public records
    kinds        what a release holds, by kind
    results      types of what functions return
    tools        for research and programs: the registry of mechanisms, made-up records, exports

Thirteen packs stand around this kernel, and use its doors:

    interchange  files and objects of other programs: what `Network.read`, `Network.from_pgmpy`, `tools.to_arviz` need
    discovery    states, bounds and bins of columns that are declared by name and type, found in private: what `domain`,
                 `discreet domain` and `discreet quickstart` need
    deciding     what `decide` and `decisions` need
    predicting   what `predict` needs
    reporting    what `explain` and `report` need
    questions    what `answer` needs for differences, ratios, events, counts and actions
    latent       nodes without a column: plan_latent, without_latent, and LatentDraws, which `read` returns
    accuracy     what `plan_accuracy` needs
    designs      regressions and principal components released directly: Design, its prior Normal, rows and their sums,
                 noisy_moments, grouped_moments and objective_perturbation, posteriors of weights
    estimators   scikit-learn: PrivateNaiveBayes, PrivateLinearRegression, PrivateLogisticRegression,
                 PrivatePoissonRegression, PrivatePCA, PrivateGridSearch, and what stands beside them
    research     mechanisms of the papers that the default dominates (fourier, allocated, posterior_sampler, sampled,
                 map_estimate, scored, factored, truncated_posterior, noisy_gradients), their kinds, scores of one's own
    evidence     what `read` needs for releases of different kinds on the same records, and method "exact"
    server       `discreet serve`, and Client: its releases and posteriors, asked as if they were here

Names are loaded when they are first used, so that `import discreet` stays cheap; `__init__.pyi` lists them.
"""

from discreet import fluent as _fluent  # noqa: F401
from discreet.util.lazy_imports import lazy_exports

__version__ = "0.1.0"

_MOVED = {
    "designs": "Design grouped_moments noisy_moments objective_perturbation",
    "estimators": "PrivateGridSearch PrivateLinearRegression PrivateLogisticRegression PrivateNaiveBayes PrivatePCA "
    "PrivatePoissonRegression",
    "research": "allocated factored fourier map_estimate noisy_gradients posterior_sampler sampled scored "
    "truncated_posterior",
    "server": "Client",
}
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    __file__,
    extras={"estimators": "sklearn", "discovery": "discreet.discovery"},
    moved={name: f"{pack}.{name}" for pack, names in _MOVED.items() for name in names.split()}
    | {"fit": "check_fit", "measured": "external_table"},
)
