"""List what this pack registers: notations of network files, in the order in which they are asked, and methods.

XMLBIF is last: it takes all XML that begins as no other notation.
"""

from __future__ import annotations

from discreet.formats.network_content import NetworkFormat
from discreet.interchange.bif import begins_as_bif, parse_bif, parse_bif_structure
from discreet.interchange.bif_writing import format_bif, odd_names, plain_names
from discreet.interchange.foreign_files import FOREIGN_FORMATS
from discreet.interchange.xmlbif import begins_as_xml, format_xmlbif, parse_xmlbif, parse_xmlbif_structure

FORMATS = (
    NetworkFormat("bif", (".bif",), begins_as_bif, parse_bif, parse_bif_structure, format_bif, odd_names, plain_names),
    *FOREIGN_FORMATS,
    NetworkFormat(
        "xmlbif",
        (".xml", ".xmlbif", ".bifxml"),
        begins_as_xml,
        parse_xmlbif,
        parse_xmlbif_structure,
        format_xmlbif,
        plain_names=plain_names,
    ),
)

METHODS = (
    ("Network.from_networkx", "discreet.interchange.conversions:network_of_networkx"),
    ("Network.from_pgmpy", "discreet.interchange.conversions:network_of_pgmpy"),
    ("Network.from_pyagrum", "discreet.interchange.conversions:network_of_pyagrum"),
    ("Network.to_networkx", "discreet.interchange.conversions:networkx_of"),
    ("Network.to_pgmpy", "discreet.interchange.conversions:pgmpy_of"),
    ("Network.to_pyagrum", "discreet.interchange.conversions:pyagrum_of"),
    ("Tables.from_pgmpy", "discreet.interchange.conversions:tables_of_pgmpy"),
    ("Tables.from_pyagrum", "discreet.interchange.conversions:tables_of_pyagrum"),
    ("Tables.to_pgmpy", "discreet.interchange.conversions:pgmpy_of_tables"),
    ("Tables.to_pyagrum", "discreet.interchange.conversions:pyagrum_of_tables"),
)
"""Methods that the kernel declares, with their homes."""
