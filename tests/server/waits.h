// waits.h - what tests wait for inside a server: bytes held, work that waits or runs. Every wait
// has a guard of WAIT_S; whatever is waited for happens at once.
#ifndef SERVER_WAITS_H
#define SERVER_WAITS_H

#include <pthread.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "server/server_fixture.h"
#include "server/work/quota.h"
#include "server/work/workers.h"

#define TEXT      "/v1/completions"
#define WAIT_S    60.0
// A request with a body, up to what frames that.
#define POST_TEXT "POST " TEXT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
#define MIB       ((size_t)1 << 20)

void nap(void); // 2 ms
// Waits until the condition is true.
#define WAIT_UNTIL(condition)                                            \
    for (const double end_s = fxi_now_s() + WAIT_S; !(condition); nap()) \
    assert_true(fxi_now_s() < end_s)
void pause_s(double s);

fxi_quota_gauges server_quota(const fixture *f);
fxi_workers_gauges server_workers(const fixture *f);
// Until the quota holds this much of a kind; nothing at all.
void wait_held(const fixture *f, fxi_bytes_of of, size_t least, size_t most);
void wait_nothing_held(const fixture *f);
// Until so many prompts are being tokenized ("grind").
void wait_grinding(const fixture *f, int n);
// Until so many pieces of work, small and large, wait for a worker.
void wait_queued(const fixture *f, uint64_t n_small, uint64_t n_large);
// Until so many requests have been submitted, or cancelled, all in all; run.
void wait_submitted(const fixture *f, int n);
void wait_cancelled(const fixture *f, int n);
void wait_running(const fixture *f, int n);

// Stops the server on a thread, which the caller joins; the fixture has none from now on.
pthread_t stop_meanwhile(fixture *f);

// Fails the test unless the whole answer came with this status and this in its body (NULL:
// anything); frees it.
void expect_reply(http_reply r, int status, const char *in_body);
int status_of(const fixture *f, const char *path); // of GET
// A small request and /health are answered.
void expect_small(const fixture *f);

// A body of n_bytes: before, as much of `fill` as fits, after. free() it.
char *huge_body(const char *before, const char *fill, const char *after, size_t n_bytes);

#endif
