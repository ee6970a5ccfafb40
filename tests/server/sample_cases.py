"""A sample of the cases that schemathesis' coverage phase makes: hooks that test_schema.py names to it.

Of each path and each kind of case (a type that is wrong, a value below the least, ...) the first one is sent, and then
one of seven. A property gets about eight wrong types, so most properties get one, and the next one another.
"""

import collections

import schemathesis

EVERY = 7
n_seen = collections.Counter()


@schemathesis.hook
def filter_case(context, case):
    if case.meta.phase.name.value != "coverage":
        return True
    kind = case.operation.label, case.meta.generation.mode, case.meta.phase.data.scenario
    n_seen[kind] += 1
    return n_seen[kind] % EVERY == 1
