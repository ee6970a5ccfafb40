// gram_machine.h - a grammar and its automaton, for tests of front ends.
#ifndef TESTS_GRAM_MACHINE_H
#define TESTS_GRAM_MACHINE_H

#include "unit/cmocka_all.h"

#include "grammar/automaton/gram_auto.h"

typedef struct gram_machine { // all zero: empty
    fxi_gram g;
    fxi_auto *a;
} gram_machine;

// Finishes m->g and makes its automaton, unless building it has failed with st.
static inline fx_status start_machine(gram_machine *m, fx_status st, uint32_t node, fx_error *err)
{
    if (!st) st = fxi_gram_finish(&m->g, node, err);
    if (!st) st = fxi_auto_make(&m->g, 1 << 18, &m->a, err);
    return st;
}

static inline void close_machine(gram_machine *m)
{
    fxi_auto_free(m->a);
    fxi_gram_free(&m->g);
}

static inline bool machine_accepts(const gram_machine *m, const char *s, size_t n)
{
    uint32_t at = fxi_auto_start(m->a);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fxi_auto_step(m->a, at, (uint8_t)s[i], &at, NULL), FX_OK);
    return fxi_auto_is_final(m->a, at);
}

#endif
