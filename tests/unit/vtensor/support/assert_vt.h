// assert_vt.h - cmocka's asserts, and asserts on the status that libvtensor returns.
#ifndef VT_TEST_ASSERT_VT_H
#define VT_TEST_ASSERT_VT_H

#include "unit/cmocka_all.h"
#include "vtensor/vtensor.h"

#define assert_status(want, got) assert_string_equal(vt_status_name(want), vt_status_name(got))
#define assert_ok(expr)          assert_status(VT_OK, expr)

#endif
