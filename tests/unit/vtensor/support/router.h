// router.h - what a program knows of a manager's prefixes that follows its events, as a router does
// that sends a request where its prefix is; and whether that is the truth. There is one at a time.
#ifndef VT_TEST_ROUTER_H
#define VT_TEST_ROUTER_H

#include "vtensor/vtensor.h"

enum { ROUTER_N_EVENT = 4096, ROUTER_MAX_NODE = 4096, ROUTER_MAX_TOK = 4096 };

// Knows nothing yet. The manager has n_group groups, of these windows (0: no window).
void router_open(vt_manager *m, uint32_t n_group, const vt_group *group);

// Takes all events; none of them may be missing, or contradict what is known.
void router_follow(void);

// What is known is what the tree of the domain has; what a block lacks decides whether a match can
// end with it; and the events of evictions are as many as were counted.
void router_verify(const vt_domain *d);

#endif
