// watcher.h - what a program knows of a manager's prefixes that asks from time to time what has
// changed (vt_prefix_watch); and whether that is what the tree has. There is one at a time.
#ifndef VT_TEST_WATCHER_H
#define VT_TEST_WATCHER_H

#include "vtensor/vtensor.h"

void watcher_open(vt_manager *m); // watches from now on

// Takes what has changed; then what is known is what a walk of all domains shows.
void watcher_verify(void);

#endif
