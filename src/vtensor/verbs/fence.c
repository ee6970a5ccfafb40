// fence.c - what the device has finished: tickets, and chunks that queued copies still read.
#include <stdlib.h>

#include "verbs.h"
#include "vtensor/core/common.h"

vt_status vti_fence_take(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &sp->fence)));
    sp->needs_fence = false;
    return VT_OK;
}

static vt_status ask_backend(vt_manager *m, uint64_t ticket, bool wait, bool *is_passed)
{
    *is_passed = true;
    if (ticket == 0) return VT_OK;
    return vti_tally_backend(m, m->vmm->ops->passed(m->vmm, ticket, wait, is_passed));
}

vt_status vti_fence_passed(vt_manager *m, uint64_t ticket, bool *is_passed)
{
    return ask_backend(m, ticket, false, is_passed);
}

vt_status vti_span_is_quiet(vt_manager *m, vti_span *sp)
{
    bool is_passed;
    if (sp->needs_fence) VT_TRY(vti_fence_take(m, sp));
    VT_TRY(vti_fence_passed(m, sp->fence, &is_passed));
    return is_passed ? VT_OK : VT_BUSY;
}

vt_status vti_span_await(vt_manager *m, vti_span *sp)
{
    if (sp->needs_fence) VT_TRY(vti_fence_take(m, sp));
    return vti_fence_await(m, sp->fence);
}

vt_status vti_fence_await(vt_manager *m, uint64_t ticket)
{
    bool is_passed;
    return ask_backend(m, ticket, true, &is_passed);
}

// ---- Loans

vt_status vti_loan_reserve(vt_manager *m)
{
    if (m->n_loan < m->cap_loan) return VT_OK;
    uint32_t cap = m->cap_loan > 0 ? 2 * m->cap_loan : 64;
    vti_loan *loan = calloc(cap, sizeof *loan);
    if (!loan) return VT_ENOMEM;
    for (uint32_t i = 0; i < m->n_loan; i++) loan[i] = m->loan[(m->first_loan + i) % m->cap_loan];
    free(m->loan);
    m->loan = loan;
    m->first_loan = 0;
    m->cap_loan = cap;
    return VT_OK;
}

// If no ticket can be taken, the loan ends with the next one that can.
void vti_loan_add(vt_manager *m, uint32_t chunk)
{
    uint64_t ticket;
    if (vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &ticket)) != VT_OK) ticket = UINT64_MAX;
    if (ticket == 0) return;
    vti_pset_user_hold(&m->pset, chunk);
    vti_pset_user_leave(&m->pset, chunk);
    m->loan[(m->first_loan + m->n_loan++) % m->cap_loan] = (vti_loan){ticket, chunk};
}

static vt_status loan_is_over(vt_manager *m, vti_loan *l, bool wait, bool *is_over)
{
    *is_over = false;
    if (l->ticket == UINT64_MAX)
        VT_TRY(vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &l->ticket)));
    return ask_backend(m, l->ticket, wait, is_over);
}

void vti_loans_return(vt_manager *m, bool wait)
{
    while (m->n_loan > 0) {
        bool is_over;
        vti_loan *l = &m->loan[m->first_loan];
        if (loan_is_over(m, l, wait, &is_over) != VT_OK || !is_over) return;
        vti_pset_user_drop(&m->pset, l->chunk, VTI_IN_POOL, true);
        m->first_loan = (m->first_loan + 1) % m->cap_loan;
        m->n_loan--;
    }
}
