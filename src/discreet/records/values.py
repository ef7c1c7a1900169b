"""Values: texts of a column that spell the same state, and those that mark a missing value.

This file owns the one meaning of text for all sources: each rule is here once as a function of Python and once as a
regular expression for engines, and a test holds the two together. Each value is judged alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from discreet.errors import InputError
from discreet.model.schema import Schema, Variable

BLANKS = " \t\r\n"
"""Blanks that may surround a number or a logical word."""
NUMBER = (
    "[+-]?(([0-9]{1,200}([.][0-9]{0,90})?|[.][0-9]{1,90})([eE][+-]?[0-9]{1,2})?"
    "|[0-9]([.][0-9]{0,90})?[eE][+-]?([0-2][0-9]{2}|30[0-7]))"
)
"""Pattern of a decimal number that 64 bits hold whatever its digits: PostgreSQL refuses larger or smaller ones."""
INFINITE = "([iI][nN][fF]([iI][nN][iI][tT][yY])?|[1-9]([.][0-9]{0,90})?[eE][+]?(30[89]|3[1-9][0-9]|[4-9][0-9]{2}))"
"""Pattern, without sign, of a number that is infinite or overflows 64 bits."""
PLAIN_NUMBER = re.compile(r"([+-]?)0*([0-9]*)(?:[.]([0-9]*?)0*)?")
"""Pattern with sign, integer part and fraction of a plain decimal number, or of marks without a digit."""
LOGICAL_WORDS = ("true", "false")
LOGICAL_STATES = {"false": False, "true": True, "0": False, "1": True}
"""Names of states, in small letters, that a logical value may have."""
PREVIOUS = "previous."
"""Prefix of a variable's name that stands for its value in the previous record of the same unit."""


def canonical(text: str) -> str | None:
    """Canonical spelling of a plain decimal number, or of `true` and `false`.

    Args:
        text: any.

    Returns:
        A number without blanks, plus, and zeros that do not count; a logical word in small letters; None for any other
        text, such as one with an exponent, a group mark, or digits of another script.

    Example:
        >>> [canonical(text) for text in ("0.0", " 007.50", "-.5", "-0", "TRUE", "1e0", "1,5")]
        ['0', '7.5', '-0.5', '0', 'true', None, None]
    """
    bare = text.strip(BLANKS)
    if bare.lower() in LOGICAL_WORDS and bare.isascii():
        return bare.lower()
    match = PLAIN_NUMBER.fullmatch(bare)
    if match is None or not any(mark in "0123456789" for mark in bare):
        return None
    sign, whole, fraction = match.groups()
    number = f"{whole or '0'}.{fraction}" if fraction else whole or "0"
    return f"-{number}" if sign == "-" and number != "0" else number


def pattern(spelling: str) -> str:
    r"""Regular expression of every text with a canonical spelling, that RE2, Python and PostgreSQL read alike.

    Args:
        spelling: of `canonical`.

    Returns:
        The expression; it matches whole texts.

    Example:
        >>> pattern("7.5")
        '^[ \\t\\r\\n]*([+]?0*7[.]50*)[ \\t\\r\\n]*$'
    """
    if spelling in LOGICAL_WORDS:
        core = "".join(f"[{letter.upper()}{letter}]" for letter in spelling)
    elif spelling == "0":
        core = "[+-]?(0+([.]0*)?|[.]0+)"
    else:
        digits, _, fraction = spelling.removeprefix("-").partition(".")
        sign = "-" if spelling.startswith("-") else "[+]?"
        core = f"{sign}0*{digits if digits != '0' else ''}" + (f"[.]{fraction}0*" if fraction else "([.]0*)?")
    return whole(core)


def whole(core: str) -> str:
    """Write a regular expression that matches a whole text, except the blanks around it, by another one.

    Args:
        core: the other one.

    Returns:
        The expression.

    Example:
        >>> re.match(whole("[0-9]+"), " 42 ") is not None, re.match(whole("[0-9]+"), "42 kg") is not None
        (True, False)
    """
    return rf"^[ \t\r\n]*({core})[ \t\r\n]*$"


def other_spellings(variable: Variable) -> Mapping[str, int]:
    """Canonical spellings of a variable's states, if text may spell them differently from their names.

    Args:
        variable: public.

    Returns:
        Code of each spelling: if all states but that of other values are different plain numbers, or different logical
        words; else nothing, and text is compared as it stands.

    Example:
        >>> dict(other_spellings(Variable("x", ("0", "1.50"))))
        {'0': 0, '1.5': 1}
        >>> dict(other_spellings(Variable("x", ("0", "1", "many"))))
        {}
    """
    codes = {canonical(state): code for code, state in enumerate(variable.matched)}
    logical = [spelling in LOGICAL_WORDS for spelling in codes]
    if variable.numeric or None in codes or len(codes) < len(variable.matched) or any(logical) != all(logical):
        return {}
    return {spelling: code for spelling, code in codes.items() if spelling is not None}


def is_number(text: str) -> bool:
    """True if a text is a finite number, to every engine.

    Args:
        text: any.

    Returns:
        True for what a numeric column may be compared with.

    Example:
        >>> [is_number(text) for text in (" 007.50", "1e-120", "1e400", "1_0", "0x1", "inf")]
        [True, True, False, False, False, False]
    """
    return re.match(whole(NUMBER), text) is not None


def spell(value: object) -> str:
    """Spell a value of a cell as text.

    Args:
        value: text, number, logical value, date or time.

    Returns:
        The text; a number has the 15 digits that spreadsheets keep.

    Example:
        >>> [spell(value) for value in ("no", True, 2.0, 0.1 + 0.2)]
        ['no', 'true', '2', '0.3']
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def markers(na_values: Iterable[str], schema: Schema) -> tuple[str, ...]:
    """Check the texts that mark a missing value.

    Args:
        na_values: public.
        schema: public.

    Returns:
        The texts, each once.

    Raises:
        InputError: they are no list of texts, or one of them is a state.

    Example:
        >>> markers(["?", "NA", "?"], Schema((Variable("smokes", ("no", "yes")),)))
        ('?', 'NA')
    """
    if isinstance(na_values, str) or not isinstance(na_values, Iterable):
        raise InputError('na_values is a list of texts, such as ["?", "NA"]')
    texts = tuple(dict.fromkeys(na_values))
    if not all(isinstance(text, str) for text in texts):
        raise InputError('na_values is a list of texts, such as ["?", "NA"]')
    spelled = {canonical(text) for text in texts} - {None}
    for variable in schema:
        if variable.numeric:
            continue
        clash = set(texts).intersection(variable.values)
        if clash or spelled.intersection((*other_spellings(variable), canonical(variable.other or ""))):
            raise InputError(
                f"variable {variable.name!r} has a state that na_values declare to be missing; "
                "take it out of one of them"
            )
    return texts
