// soak.c - see soak.h.
#include "assert_vt.h"

#include "soak.h"

static uint64_t seed, round_now;

static void verify_no_error(const soak *s, uint64_t step)
{
    vt_stats st;
    vt_get_stats(s->manager(), &st);
    if (st.device_errors > 0 || st.quarantined_spans > 0 || st.swap_corrupt > 0)
        fail_msg("operation %llu: %llu device errors, %llu spans quarantined, %llu chunks corrupt",
                 (unsigned long long)step, (unsigned long long)st.device_errors,
                 (unsigned long long)st.quarantined_spans, (unsigned long long)st.swap_corrupt);
}

static void run_step(const soak *s, uint64_t step, bool faulty)
{
    if (faulty && step % 4 > 0)
        vt_fault_arm_random(s->fault(), (seed + round_now) ^ (step << 20),
                            5 + (uint32_t)(step % 12));
    s->step(faulty);
    if (!faulty) verify_no_error(s, step);
    if (step % 8 == 0) s->look();
    if (step % 64 == 0) s->verify();
}

static void run_round(const soak *s)
{
    bool faulty = round_now % 4 == 3;
    s->open(round_now, seed + round_now);
    vt_fault_set_delay(s->fault(), seed + round_now, 5u << (round_now % 6));
    for (uint64_t k = 0; k < s->round_steps; k++) run_step(s, k, faulty);
    s->verify();
    s->close();
}

void test_owner_and_mapper_together(void **state)
{
    const soak *s = *state;
    uint64_t n_step = env_or("VT_SOAK_STEPS", s->default_steps);
    seed = env_or("VT_TEST_SEED", 1);
    round_now = env_or("VT_TEST_ROUND", 0);
    for (uint64_t done = 0; done < n_step; done += s->round_steps, round_now++) run_round(s);
}

int soak_print_round(void **state)
{
    (void)state;
    print_message("seed %llu, round %llu\n", (unsigned long long)seed,
                  (unsigned long long)round_now);
    return 0;
}
