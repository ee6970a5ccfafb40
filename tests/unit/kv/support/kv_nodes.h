// kv_nodes.h - the recorded prefixes that a program knows of that watches a manager and asks from
// time to time what has changed (fxi_kv_watch_nodes); and whether those are all that there are. One
// manager at a time.
#ifndef TESTS_KV_NODES_H
#define TESTS_KV_NODES_H

#include "kv/kv.h"

void kv_nodes_open(fxi_kv *kv); // watches from now on

// For a painter of the manager.
void kv_nodes_anew(void *ud);
void kv_nodes_gone(void *ud, uint64_t id);
void kv_nodes_learn(void *ud, const fxi_kv_node *node);

uint64_t kv_nodes_held_bytes(void); // by those known

// Asks what has changed, and compares nothing. Returns how many nodes it was told of, those that
// are gone among them.
int kv_nodes_take(fxi_kv *kv);
int kv_nodes_n_known(void);

// After the manager has been painted: compares the nodes that are known with all of them, as shown
// to whoever does not watch. After that, watching begins anew.
void kv_nodes_compare(fxi_kv *kv);
void kv_nodes_verify(fxi_kv *kv); // every fourth call does that

#endif
