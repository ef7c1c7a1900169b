"""Differentially private Bayesian inference for probabilistic graphical models.

A curator turns a private table and a public network into a release that is safe to publish:

    records = read_records("patients.parquet", network.schema)
    made = release(planned(), count(records, network), Dirichlet.uniform(network), promise, account=account)
    made.save("release.json")

Anybody turns a release into a posterior and asks it questions; every interval counts both the sampling error and the
privacy noise:

    load("release.json").posterior().answer("P(lung | smoke=yes)")

The names at the top, by task:

    describe     Variable, Schema, Network, Tables, Dirichlet (the prior), Design (of a regression)
    records      read_records, check, count
    pay          Guarantee, Relation, Ledger
    release      release; simulate for made-up records, with a seed
    mechanisms   planned is the default for networks; laplace, fourier, gaussian, allocated add noise to counts;
                 posterior_sampler, sampled, map_estimate, scored, factored draw or choose; structure chooses arcs;
                 for regressions noisy_moments, grouped_moments, truncated_posterior, noisy_gradients and
                 objective_perturbation
    read         load, Release, combine, measured; read or `.posterior()` for draws of whatever was released,
                 noise_aware with all options of a network, estimate for means, fit to test the network;
                 read_weights is `read` for regressions alone
    ask          answer, answer_many, marginals, predict, regress, decide, explain, sample; report
    elsewhere    Client: releases and posteriors of `discreet serve`, asked as if they were here
    estimators   PrivateNaiveBayes, PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegression,
                 PrivatePCA, PrivateGridSearch
    research     plan, plan_accuracy, audit
    errors       DiscreetError, InputError, BudgetError

Names of classes are things; functions are acts, or make what they name (`planned()` makes the mechanism of that name).
Functions that draw random numbers take `rng`: a seed or a NumPy generator gives the same numbers again. What the names
at the top need beside them is in few modules:

    designs      regressions and principal components: rows, their sums, laws of features
    scores       choices by a score of one's own
    decisions    payoffs, losses of numbers, sequences of questions
    external     figures that others measured, and public records
    estimators   scikit-learn: what stands beside the `Private...` estimators
    kinds        what a release holds, by kind
    results      types of what functions return
    tools        for research and programs: the registry of mechanisms, made-up records, exports

Names are loaded when they are first used, so that `import discreet` stays cheap; `__init__.pyi` lists them.
"""

from discreet import fluent as _fluent  # noqa: F401
from discreet.util.lazy_imports import late_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = late_names(__name__, __file__, extras={"estimators": "sklearn", "server": "httpcore2"})
