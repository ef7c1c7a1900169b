"""Work of the command `latent`: read a network, plan the tables, and write the network without the node."""

from __future__ import annotations

from pathlib import Path

import tomlkit

from discreet.cli.arguments import PROJECT, network_over
from discreet.cli.output_options import OutputOptions
from discreet.cli.posteriors import load_evidence
from discreet.errors import require, shown_path
from discreet.formats.project_file import Project
from discreet.latent.latent_plan import plan_latent
from discreet.latent.latent_proposal import propose_latent
from discreet.model.arcs import quoted
from discreet.model.network import Network


def prepare(word: str, node: str | None, output: Path | None, as_json: bool) -> None:
    """Print the plan of a latent node, and write the network of the other variables; without a node propose one.

    Args:
        word: path of the network, or of a release without a node.
        node: without a column; None proposes one for the release.
        output: new file; None writes none.
        as_json: whether to print JSON.

    Raises:
        InputError: as in `plan_latent`, a file that exists, or a project file for a network that is none.
    """
    out = OutputOptions.of(None, None, False, as_json)
    if output is not None:
        require(not output.exists(), f"{shown_path(output)} exists; give another name")
    if node is None:
        proposal = propose_latent(load_evidence(word))
        if output is not None and proposal.network is not None:
            proposal.network.write(output)
        out.show({"gain": proposal.gain, "proposed": proposal.tidy()}, proposal.content(), proposal.tidy())
        return
    plan = plan_latent(network_over(word, None), node)
    if output is not None:
        _write(word, node, plan.observed, output)
    document = {"latent": node, "around": list(plan.around), "parameters": plan.parameters, "least": plan.least,
                "tables": plan.tidy()}  # fmt: skip
    out.show(document, plan.content(), plan.tidy())


def _write(word: str, node: str, observed: Network, output: Path) -> None:
    """Write the observed network: a project file as the other one, without the node; else a network file."""
    if not str(output).endswith(PROJECT):
        observed.write(output)
        return
    require(word.endswith(PROJECT), "a project file is written from a project file; name the output .bif")
    document = tomlkit.parse(Project.read(word).text)
    sections = document["variables"]
    names = [str(section["name"]) for section in sections]
    del sections[names.index(node)]
    document["arcs"] = [f"{quoted(parent)} -> {quoted(child)}" for parent, child in observed.arcs]
    Project.parse(tomlkit.dumps(document)).save(output)
