// test_kv_pages.c - the table of recorded pages: prompts that were chosen to collide do not.
#include "unit/cmocka_all.h"

#include "kv/paged/paged.h"

enum { N_BLOCK = 1024, N_PAGE = 256, SHIFT = 4 };

// A hash without a secret, for which tokens that collide are found by trying.
static uint64_t plain_hash(uint64_t parent, const int32_t *tok)
{
    uint64_t h = parent;
    for (int i = 0; i < 1 << SHIFT; i++) {
        h = (h ^ (uint32_t)tok[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h & (N_BLOCK - 1);
}

static uint32_t longest_chain(const fxi_paged *k)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < k->n_bucket; i++) {
        uint32_t n = 0;
        for (uint32_t p = k->bucket[i]; p != FXI_PAGE_NONE; p = k->page[p].chain) n++;
        if (n > longest) longest = n;
    }
    return longest;
}

FX_TEST(test_chosen_prompts_do_not_collide)
{
    fxi_paged k = {.block_shift = SHIFT, .n_block = N_BLOCK};
    fxi_kv_domain *domain;
    assert_true(fxi_page_store_open(&k));
    assert_int_equal(fxi_page_domain_open(&k.kv, "a", 1, &domain), FX_OK);
    fxi_page_domain *d = (fxi_page_domain *)domain;
    for (uint32_t page = 0; page < N_PAGE; page++) {
        int32_t tok[1 << SHIFT] = {(int32_t)page};
        while (plain_hash(d->serial, tok) != 0) tok[(1 << SHIFT) - 1]++;
        fxi_page_put(&k, page, d->serial, d, tok);
        assert_int_equal(fxi_page_find(&k, d->serial, tok), page);
    }
    assert_in_range(longest_chain(&k), 1, 12);
    for (uint32_t page = 0; page < N_PAGE; page++) fxi_page_unrecord(&k, page);
    fxi_page_domain_close(&k.kv, domain);
    fxi_page_store_close(&k);
}

FX_RUN(test_kv_pages)
