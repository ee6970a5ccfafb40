// standin_library.h - what stand-ins for libraries on top of the driver have in common: calls that
// can be made to fail, and objects that are known until they are dropped.
//
// They keep to the rules of standin.h: one mutex, and breaches that the driver's report shows.
#ifndef VT_TEST_STANDIN_LIBRARY_H
#define VT_TEST_STANDIN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Each object begins so.
typedef struct standin_object {
    struct standin_object *next;
    int kind; // the library's
} standin_object;

typedef struct standin_library {
    uint64_t n_call, n_failed; // since the last reset; calls that may fail alone count
    uint64_t fail_at;          // 1 is the first; 0: none fails
    int fail_status;
    standin_object *objects;
} standin_library;

// ---- for tests ---------------------------------------------------------------------------------

void standin_library_reset(standin_library *l); // counts and orders, not objects
// The i-th call from now on (0: the next) answers `status` and does nothing.
void standin_library_fail(standin_library *l, uint64_t i, int status);
uint64_t standin_library_count(standin_library *l, int kind); // objects now; kind < 0: all

// ---- for the libraries -------------------------------------------------------------------------

// Takes the mutex and counts a call that may fail. Not 0: it is to answer that.
int standin_library_enter(standin_library *l);
void standin_library_hold(void);       // the mutex alone, for calls that cannot fail
int standin_library_leave(int status); // releases it; the value is the status

// The mutex is held. make: all zero but for the head; NULL: no memory. find: NULL where it is none
// of the library's or of another kind; kind < 0: any. drop: false where there is none.
void *standin_library_make(standin_library *l, int kind, size_t size_bytes);
void *standin_library_find(const standin_library *l, const void *object, int kind);
bool standin_library_drop(standin_library *l, void *object, int kind);

#endif
