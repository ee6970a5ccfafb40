"""A very small template language for generated prose.

    [a|b|c]     one of the alternatives, chosen by the random generator; may nest; [a|] is "a or nothing"
    {x}         the slot x: a string, or an object printed with str()
    {x.part}    an attribute of the slot's object, e.g. {h.he}
    {^x.part}   the same with a capital first letter

What a slot holds is itself a template and is expanded in turn.  After expansion "a" becomes "an" before a vowel
and blanks and line ends shrink to one blank, so that a template may run over lines and leave an alternative empty.
"""

import re

_SLOT = re.compile(r"\{(\^?)([a-z_]+)(?:\.([a-z_]+))?\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_BLANKS = re.compile(r"\s+")


def expand(template, slots, rng):
    """Returns finished prose for one template."""
    text = _expand_raw(template, slots, rng)
    text = _ARTICLE.sub(r"\1n ", text)
    return _BLANKS.sub(" ", text).strip()


def _expand_raw(template, slots, rng):
    chosen = _choose_all(template, rng)
    return _SLOT.sub(lambda match: _fill(match, slots, rng), chosen)


def _fill(match, slots, rng):
    capital, name, part = match.groups()
    value = getattr(slots[name], part) if part else slots[name]
    text = _expand_raw(str(value), slots, rng)
    return text[:1].upper() + text[1:] if capital else text


def _choose_all(template, rng):
    """Replaces every [..|..] by one of its alternatives, outermost first."""
    out, at = [], 0
    while (start := template.find("[", at)) >= 0:
        out.append(template[at:start])
        alternatives, at = _split(template, start + 1)
        out.append(_choose_all(rng.choice(alternatives), rng))
    out.append(template[at:])
    return "".join(out)


def _split(template, at):
    """Splits the alternatives of the bracket that opened before `at`; returns them and where the bracket ended."""
    alternatives, depth, begin = [], 0, at
    while depth > 0 or template[at] != "]":
        char = template[at]
        if char == "|" and depth == 0:
            alternatives.append(template[begin:at])
            begin = at + 1
        depth += (char == "[") - (char == "]")
        at += 1
    alternatives.append(template[begin:at])
    return alternatives, at + 1
