// gram_pay.h - work on masks is paid for as it is done, so that it can be ended, or interrupted for
// others.
#ifndef FXI_GRAMMAR_PAY_H
#define FXI_GRAMMAR_PAY_H

#include "grammar/run/gram_auto.h"

typedef struct fxi_mask_pay_book {
    fxi_auto *a;
    size_t left;                           // what may be spent, in nodes of a trie: 3 to 8 ns each
    size_t seen;                           // of fxi_auto_n_work: what was paid for
    bool (*pause)(void *ud, size_t *left); // called where nothing is left: gives more, or ends the
    void *ud;                              // work, which then touches nothing. NULL: it ends
} fxi_mask_pay_book;

#define FXI_PAY_NO_LIMIT SIZE_MAX

// From now on `a` is worked on for `left`.
static inline void fxi_mask_pay_open(fxi_mask_pay_book *p, fxi_auto *a, size_t left)
{
    p->a = a;
    p->left = left;
    p->seen = fxi_auto_n_work(a);
}

// Pays for n nodes, and for the moves that were found since the last call. FX_ENOSPACE: the work
// has ended.
fx_status fxi_mask_pay(fxi_mask_pay_book *p, size_t n, fx_error *err);

#endif
