// standin_assert.h - the check with which every test on the stand-in ends.
#ifndef VT_TEST_STANDIN_ASSERT_H
#define VT_TEST_STANDIN_ASSERT_H

#include "assert_vt.h"
#include "standin/standin.h"

// No rule of the driver was broken, and nothing is still allocated.
static inline void standin_assert_empty(void)
{
    standin_report r = standin_look();
    if (r.n_breach > 0) fail_msg("a rule of the driver is broken: %s", r.breach);
    assert_int_equal(r.n_memory + r.n_handle + r.n_mapping + r.n_reservation, 0);
    assert_int_equal(r.n_stream + r.n_event + r.n_pinned, 0);
}

#endif
