// picture_budget.c - two accounts and one share.
#include "engine/picture/picture_budget.h"

#include "flexinfer/picture.h"

enum { HALF_SHARE = 2 * FX_PICTURE_SHARE }; // of each account, while there is a debt

static uint64_t debt_now_us(const fxi_picture_budget *b, uint64_t now_us)
{
    const uint64_t paid_us = now_us > b->debt_at_us ? (now_us - b->debt_at_us) / HALF_SHARE : 0;
    return b->debt_us > paid_us ? b->debt_us - paid_us : 0;
}

void fxi_picture_budget_begin(fxi_picture_budget *b, uint64_t now_us)
{
    b->change_us = 0;
    b->was_in_debt = debt_now_us(b, now_us) > 0;
}

void fxi_picture_budget_charge(fxi_picture_budget *b, uint64_t us)
{
    b->change_us += us;
}

void fxi_picture_budget_charge_whole(fxi_picture_budget *b, uint64_t now_us, uint64_t us)
{
    b->debt_us = debt_now_us(b, now_us) + us;
    b->debt_at_us = now_us;
    b->was_in_debt = true;
}

uint64_t fxi_picture_budget_gap_us(const fxi_picture_budget *b)
{
    const uint64_t share = b->was_in_debt ? HALF_SHARE : FX_PICTURE_SHARE;
    const uint64_t gap_us = b->change_us * share;
    return gap_us > FXI_PICTURE_LEAST_GAP_US ? gap_us : FXI_PICTURE_LEAST_GAP_US;
}

uint64_t fxi_picture_budget_whole_wait_us(const fxi_picture_budget *b, uint64_t now_us)
{
    const uint64_t debt_us = debt_now_us(b, now_us);
    return debt_us > FXI_PICTURE_CREDIT_US ? (debt_us - FXI_PICTURE_CREDIT_US) * HALF_SHARE : 0;
}
