"""Differentially private Bayesian inference for probabilistic graphical models.

A curator turns a private table and a public network into a release that is safe to publish; anybody turns a release
into a posterior and asks it questions, and every answer has an interval that counts both the sampling error and the
privacy noise:

    network, records -> count -> release -> noise_aware -> answer

Names are loaded when they are first used, so that `import discreet` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from discreet.errors import BudgetError, DiscreetError, InputError
    from discreet.estimators.components_analysis import PrivatePCA
    from discreet.estimators.folds import IndependentFolds
    from discreet.estimators.found_bounds import Clipped, ClippedWarning
    from discreet.estimators.grid_search import PrivateGridSearch
    from discreet.estimators.linear_regression import PrivateLinearRegression
    from discreet.estimators.logistic_regression import PrivateLogisticRegression
    from discreet.estimators.naive_bayes import PrivateNaiveBayes
    from discreet.estimators.pipelines import check_pipeline
    from discreet.estimators.poisson_regression import PrivatePoissonRegression
    from discreet.estimators.principal_direction import PrivatePrincipalDirection
    from discreet.estimators.scaling import PublicScaler
    from discreet.estimators.scores import PrivateScorer, private_scorer, release_score
    from discreet.mechanisms import MECHANISMS
    from discreet.mechanisms.allocated import allocated
    from discreet.mechanisms.crossing import Mechanism, release, simulate, statistic_of
    from discreet.mechanisms.factored import factored
    from discreet.mechanisms.fourier import fourier
    from discreet.mechanisms.gaussian import gaussian
    from discreet.mechanisms.grouped_moments import grouped_moments
    from discreet.mechanisms.laplace import laplace
    from discreet.mechanisms.map_estimate import map_estimate
    from discreet.mechanisms.noisy_gradients import noisy_gradients
    from discreet.mechanisms.noisy_moments import noisy_moments
    from discreet.mechanisms.objective_perturbation import objective_perturbation
    from discreet.mechanisms.planned import planned
    from discreet.mechanisms.posterior_sampler import posterior_sampler
    from discreet.mechanisms.sampled import sampled
    from discreet.mechanisms.scored import scored
    from discreet.mechanisms.structure import structure
    from discreet.mechanisms.truncated_posterior import truncated_posterior
    from discreet.model.design import Design, Normal
    from discreet.model.dirichlet import Dirichlet
    from discreet.model.families import Family
    from discreet.model.network import Network
    from discreet.model.origin import Learned
    from discreet.model.own_factors import OwnFactor, own_factor
    from discreet.model.schema import Schema, Variable
    from discreet.model.score_files import read_score_file
    from discreet.model.score_tables import ScoreTable, own_family, own_score
    from discreet.model.tables import Tables
    from discreet.posterior.arviz_export import to_arviz
    from discreet.posterior.at_random import at_random
    from discreet.posterior.design.laws import Histograms, PublicRows, UniformBox, UniformSphere, WeightedPoints
    from discreet.posterior.design.weight_posterior import PublicRecords, WeightPosterior, even_law, weights
    from discreet.posterior.draws import Mixing, Posterior, PosteriorDraws
    from discreet.posterior.family_draws import FamilyPosterior, family_posterior, of_family
    from discreet.posterior.fit_check import FitCheck, fit
    from discreet.posterior.methods import Method, drowned_rows, noise_aware
    from discreet.posterior.own_choices import LawWeights, law_weights
    from discreet.posterior.plug_in import plug_in
    from discreet.posterior.pooled.estimate import estimate
    from discreet.privacy.default_account import DefaultAccountWarning, default_account
    from discreet.privacy.guarantee import RECORD_RELATIONS, Guarantee, Relation, compose, convert
    from discreet.privacy.ledger import Account, Ledger
    from discreet.queries.credible import credible_interval
    from discreet.queries.decide import Decision, decide, payoff
    from discreet.queries.decide_number import NumberDecision, decide_number
    from discreet.queries.explain import explain
    from discreet.queries.explanation import Explanation
    from discreet.queries.pooled_estimates import PooledEstimate, pool_estimates
    from discreet.queries.predict import Prediction, predict
    from discreet.queries.query import Answer, answer, answer_many, marginals, parse_query
    from discreet.queries.regress import Regression, regress
    from discreet.queries.released_covariates import released_covariates
    from discreet.queries.responder import Responder
    from discreet.queries.score import Score, read_score
    from discreet.queries.synthetic import sample_records, synthetic, write_records
    from discreet.releases.combined import Combined, combine, evidence_of, load, loads
    from discreet.releases.external import External, StatedNoise, measured
    from discreet.releases.external_cells import measured_cells, measured_mbi
    from discreet.releases.kinds.audited_tables import AuditedTables, AuditNoise
    from discreet.releases.kinds.candidate_choice import Choice
    from discreet.releases.kinds.chosen_network import ChosenNetwork
    from discreet.releases.kinds.factored_choice import FactoredChoice
    from discreet.releases.kinds.gradient_trace import GradientTrace
    from discreet.releases.kinds.noisy_contrasts import NoisyCoefficients
    from discreet.releases.kinds.noisy_counts import NoisyCounts
    from discreet.releases.kinds.noisy_sums import GroupedMoments, NoisyMoments, NoisyTotal
    from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
    from discreet.releases.kinds.parameter_draws import ParameterDraws
    from discreet.releases.kinds.scored_choice import ScoredChoice
    from discreet.releases.kinds.two_stages import TwoStageCounts
    from discreet.releases.kinds.weight_draws import WeightDraws
    from discreet.releases.release import Release
    from discreet.sensitive.count_sensitivity import sensitivity
    from discreet.sensitive.counts import Counts, count, count_codes
    from discreet.sensitive.drafts import draft_schema
    from discreet.sensitive.gradients import Gradients, gradients
    from discreet.sensitive.moments import Moments, moments
    from discreet.sensitive.public import public_counts
    from discreet.sensitive.records import Records, check, read_records
    from discreet.sensitive.rows import Rows, grid_rows
    from discreet.sensitive.score_sums import ScoreSums
    from discreet.theory.bounds import draws_for_loss
    from discreet.theory.factors import CategoricalFactor, DirectionFactor, spread_candidates
    from discreet.theory.number_losses import Absolute, Interval, Quantile, Squared
    from discreet.verify.audit import Finding, audit
    from discreet.verify.plan import Expected, compare
    from discreet.verify.plan_score import ExpectedDraw, compare_score

_HOMES = {
    "verify.audit": ("Finding", "audit"),
    "verify.plan": ("Expected", "compare"),
    "verify.plan_score": ("ExpectedDraw", "compare_score"),
    "sensitive.public": ("public_counts",),
    "errors": ("BudgetError", "DiscreetError", "InputError"),
    "estimators.folds": ("IndependentFolds",),
    "estimators.found_bounds": ("Clipped", "ClippedWarning"),
    "estimators.grid_search": ("PrivateGridSearch",),
    "estimators.linear_regression": ("PrivateLinearRegression",),
    "estimators.logistic_regression": ("PrivateLogisticRegression",),
    "estimators.poisson_regression": ("PrivatePoissonRegression",),
    "estimators.naive_bayes": ("PrivateNaiveBayes",),
    "estimators.components_analysis": ("PrivatePCA",),
    "estimators.principal_direction": ("PrivatePrincipalDirection",),
    "estimators.pipelines": ("check_pipeline",),
    "estimators.scaling": ("PublicScaler",),
    "estimators.scores": ("PrivateScorer", "private_scorer", "release_score"),
    "mechanisms": ("MECHANISMS",),
    "mechanisms.allocated": ("allocated",),
    "mechanisms.crossing": ("Mechanism", "release", "simulate", "statistic_of"),
    "mechanisms.factored": ("factored",),
    "mechanisms.fourier": ("fourier",),
    "mechanisms.gaussian": ("gaussian",),
    "mechanisms.grouped_moments": ("grouped_moments",),
    "mechanisms.laplace": ("laplace",),
    "mechanisms.map_estimate": ("map_estimate",),
    "mechanisms.noisy_gradients": ("noisy_gradients",),
    "mechanisms.noisy_moments": ("noisy_moments",),
    "mechanisms.objective_perturbation": ("objective_perturbation",),
    "mechanisms.planned": ("planned",),
    "mechanisms.posterior_sampler": ("posterior_sampler",),
    "mechanisms.sampled": ("sampled",),
    "mechanisms.scored": ("scored",),
    "mechanisms.structure": ("structure",),
    "mechanisms.truncated_posterior": ("truncated_posterior",),
    "model.design": ("Design", "Normal"),
    "model.dirichlet": ("Dirichlet",),
    "model.families": ("Family",),
    "model.network": ("Network",),
    "model.origin": ("Learned",),
    "model.own_factors": ("OwnFactor", "own_factor"),
    "model.schema": ("Schema", "Variable"),
    "model.score_files": ("read_score_file",),
    "model.score_tables": ("ScoreTable", "own_family", "own_score"),
    "model.tables": ("Tables",),
    "posterior.arviz_export": ("to_arviz",),
    "posterior.at_random": ("at_random",),
    "posterior.design.laws": ("Histograms", "PublicRows", "UniformBox", "UniformSphere", "WeightedPoints"),
    "posterior.draws": ("Mixing", "Posterior", "PosteriorDraws"),
    "posterior.family_draws": ("FamilyPosterior", "family_posterior", "of_family"),
    "posterior.fit_check": ("FitCheck", "fit"),
    "posterior.pooled.estimate": ("estimate",),
    "posterior.methods": ("Method", "drowned_rows", "noise_aware"),
    "posterior.own_choices": ("LawWeights", "law_weights"),
    "posterior.plug_in": ("plug_in",),
    "posterior.design.weight_posterior": ("PublicRecords", "WeightPosterior", "even_law", "weights"),
    "releases.combined": ("Combined", "combine", "evidence_of", "load", "loads"),
    "releases.external": ("External", "StatedNoise", "measured"),
    "releases.external_cells": ("measured_cells", "measured_mbi"),
    "releases.kinds.candidate_choice": ("Choice",),
    "releases.kinds.chosen_network": ("ChosenNetwork",),
    "releases.kinds.factored_choice": ("FactoredChoice",),
    "releases.kinds.gradient_trace": ("GradientTrace",),
    "releases.kinds.noisy_contrasts": ("NoisyCoefficients",),
    "releases.kinds.noisy_counts": ("NoisyCounts",),
    "releases.kinds.noisy_sums": ("GroupedMoments", "NoisyMoments", "NoisyTotal"),
    "releases.kinds.audited_tables": ("AuditedTables", "AuditNoise"),
    "releases.kinds.noisy_tables": ("NoisyTables", "PlannedNoise"),
    "releases.kinds.parameter_draws": ("ParameterDraws",),
    "releases.kinds.scored_choice": ("ScoredChoice",),
    "releases.kinds.two_stages": ("TwoStageCounts",),
    "releases.kinds.weight_draws": ("WeightDraws",),
    "privacy.default_account": ("DefaultAccountWarning", "default_account"),
    "privacy.guarantee": ("RECORD_RELATIONS", "Guarantee", "Relation", "compose", "convert"),
    "privacy.ledger": ("Account", "Ledger"),
    "releases.release": ("Release",),
    "queries.pooled_estimates": ("PooledEstimate", "pool_estimates"),
    "queries.regress": ("Regression", "regress"),
    "queries.released_covariates": ("released_covariates",),
    "queries.decide": ("Decision", "decide", "payoff"),
    "queries.explain": ("explain",),
    "queries.explanation": ("Explanation",),
    "queries.decide_number": ("NumberDecision", "decide_number"),
    "queries.predict": ("Prediction", "predict"),
    "queries.credible": ("credible_interval",),
    "queries.query": ("Answer", "answer", "answer_many", "marginals", "parse_query"),
    "queries.responder": ("Responder",),
    "queries.score": ("Score", "read_score"),
    "queries.synthetic": ("sample_records", "synthetic", "write_records"),
    "sensitive.counts": ("Counts", "count", "count_codes"),
    "sensitive.gradients": ("Gradients", "gradients"),
    "sensitive.moments": ("Moments", "moments"),
    "sensitive.drafts": ("draft_schema",),
    "sensitive.records": ("Records", "check", "read_records"),
    "sensitive.rows": ("Rows", "grid_rows"),
    "sensitive.count_sensitivity": ("sensitivity",),
    "sensitive.score_sums": ("ScoreSums",),
    "theory.bounds": ("draws_for_loss",),
    "theory.factors": ("CategoricalFactor", "DirectionFactor", "spread_candidates"),
    "theory.number_losses": ("Absolute", "Interval", "Quantile", "Squared"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - in the order of the flow
    "Variable",
    "Schema",
    "Network",
    "Tables",
    "Dirichlet",
    "Design",
    "Normal",
    "Relation",
    "RECORD_RELATIONS",
    "Guarantee",
    "compose",
    "convert",
    "Learned",
    "Ledger",
    "DefaultAccountWarning",
    "default_account",
    "Account",
    "read_records",
    "check",
    "draft_schema",
    "Records",
    "count",
    "count_codes",
    "Counts",
    "sensitivity",
    "grid_rows",
    "Rows",
    "moments",
    "Moments",
    "gradients",
    "Gradients",
    "ScoreSums",
    "planned",
    "PlannedNoise",
    "AuditedTables",
    "AuditNoise",
    "laplace",
    "fourier",
    "gaussian",
    "allocated",
    "posterior_sampler",
    "map_estimate",
    "scored",
    "ScoreTable",
    "own_score",
    "own_family",
    "read_score_file",
    "sampled",
    "Family",
    "grouped_moments",
    "noisy_moments",
    "truncated_posterior",
    "noisy_gradients",
    "objective_perturbation",
    "factored",
    "OwnFactor",
    "own_factor",
    "CategoricalFactor",
    "DirectionFactor",
    "spread_candidates",
    "MECHANISMS",
    "Mechanism",
    "statistic_of",
    "release",
    "simulate",
    "Release",
    "NoisyTables",
    "NoisyCounts",
    "TwoStageCounts",
    "NoisyCoefficients",
    "ParameterDraws",
    "Choice",
    "ScoredChoice",
    "ChosenNetwork",
    "GroupedMoments",
    "NoisyMoments",
    "WeightDraws",
    "GradientTrace",
    "FactoredChoice",
    "NoisyTotal",
    "measured",
    "measured_cells",
    "measured_mbi",
    "StatedNoise",
    "External",
    "Combined",
    "combine",
    "public_counts",
    "load",
    "loads",
    "evidence_of",
    "noise_aware",
    "Method",
    "Mixing",
    "at_random",
    "to_arviz",
    "plug_in",
    "weights",
    "law_weights",
    "LawWeights",
    "WeightPosterior",
    "PublicRecords",
    "even_law",
    "UniformBox",
    "UniformSphere",
    "PublicRows",
    "Histograms",
    "WeightedPoints",
    "released_covariates",
    "family_posterior",
    "of_family",
    "FamilyPosterior",
    "drowned_rows",
    "estimate",
    "FitCheck",
    "fit",
    "Posterior",
    "PosteriorDraws",
    "parse_query",
    "answer",
    "answer_many",
    "marginals",
    "Answer",
    "credible_interval",
    "decide",
    "payoff",
    "Decision",
    "explain",
    "Explanation",
    "decide_number",
    "Squared",
    "Absolute",
    "Quantile",
    "Interval",
    "NumberDecision",
    "draws_for_loss",
    "Responder",
    "predict",
    "Prediction",
    "regress",
    "Regression",
    "sample_records",
    "structure",
    "synthetic",
    "write_records",
    "pool_estimates",
    "PooledEstimate",
    "Clipped",
    "ClippedWarning",
    "PrivateNaiveBayes",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivatePCA",
    "PrivatePrincipalDirection",
    "PrivateGridSearch",
    "PublicScaler",
    "check_pipeline",
    "release_score",
    "read_score",
    "Score",
    "private_scorer",
    "PrivateScorer",
    "IndependentFolds",
    "compare",
    "compare_score",
    "Expected",
    "ExpectedDraw",
    "audit",
    "Finding",
    "DiscreetError",
    "InputError",
    "BudgetError",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module (PEP 562)."""
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"discreet.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
