// kv_look.h - the snapshot of a world's memory (fxi_kv_collect), which agrees with its sequences
// and with the statistics at any time.
#ifndef TESTS_KV_LOOK_H
#define TESTS_KV_LOOK_H

#include "unit/kv/support/kv_world.h"

// Groups are those of each device; every chunk has one name and one state, and its bytes are those
// counted; the segments of each sequence come in order, once, by chunks that were shown. Managers
// over libvtensor show every position that holds a row, on every device. Nodes are complete
// and in order.
void kv_look_verify(const kv_world *w);

#endif
