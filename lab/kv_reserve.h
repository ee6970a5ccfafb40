// kv_reserve.h - the KV managers that reserve contiguous memory for each sequence: the memory
// managers that PagedAttention and its successors are compared with. They are no part of the
// product: an engine gets one of them through kv_ops of its options.
#ifndef FXI_LAB_KV_RESERVE_H
#define FXI_LAB_KV_RESERVE_H

#include "kv/kv.h"

enum { FXI_N_KV_RESERVE = 3 };
extern const fxi_kv_ops fxi_kv_reserve[FXI_N_KV_RESERVE];

// By name; NULL: it is none of these.
const fxi_kv_ops *fxi_kv_reserve_find(const char *name);

// The i-th name of all managers, those of the product first; NULL: there are no more.
const char *fxi_lab_manager_name(int i);

#endif
