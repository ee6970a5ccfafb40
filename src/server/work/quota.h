// quota.h - the memory quota of requests: every byte that waits in the server or is held for a
// request is counted against one limit before it is allocated.
//
//   body    what has arrived of bodies, or is announced by Content-Length
//   tree    parsed JSON
//   prompt  rendered chats and token ids on their way to the engine
//   queue   what the engine copied: ids, once for each sequence, stop strings, biases
//   answer  text that waits for its reader
//   grammar what the engine's grammars hold: they outlive the requests that asked for them
//
// Each request has one charge. Charges of less than FXI_SMALL_CHARGE_BYTES may fill the whole
// limit, larger ones leave an eighth of it free: small requests are served while large ones fill
// the quota. Counting is atomic, without a lock. Any thread; the quota lives as long as its last
// charge.
#ifndef FXI_SERVER_QUOTA_H
#define FXI_SERVER_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FXI_SMALL_CHARGE_BYTES (64u << 10)

typedef enum fxi_bytes_of {
    FXI_BYTES_BODY,
    FXI_BYTES_TREE,
    FXI_BYTES_PROMPT,
    FXI_BYTES_QUEUE,
    FXI_BYTES_ANSWER,
    FXI_BYTES_GRAMMAR,
    FXI_N_BYTES_OF
} fxi_bytes_of;

typedef struct fxi_quota fxi_quota;

typedef struct fxi_quota_gauges { // for metrics
    uint64_t limit_bytes, used_bytes, peak_bytes;
    uint64_t of_bytes[FXI_N_BYTES_OF]; // used_bytes is their sum
    uint64_t n_refused;                // reservations refused so far
} fxi_quota_gauges;

// The limit by default: an eighth of the memory that is free, 64 MiB to 1 GiB. `root`: as in
// fxi_free_memory_bytes.
size_t fxi_quota_default_bytes(const char *root);

fxi_quota *fxi_quota_new(size_t limit_bytes); // one reference; NULL: out of memory
void fxi_quota_unref(fxi_quota *q);           // NULL is allowed
void fxi_quota_read(const fxi_quota *q, fxi_quota_gauges *out); // each figure by itself is exact
// Sets what is held of a kind that belongs to no request, whatever the limit.
void fxi_quota_note(fxi_quota *q, fxi_bytes_of of, size_t n_bytes);

// ---- charges ----------------------------------------------------------------------------------

// What one request holds. Opened once; several threads may reserve and release at a time.
typedef struct fxi_charge {
    fxi_quota *quota; // NULL: counts nothing, refuses nothing
    atomic_size_t of[FXI_N_BYTES_OF];
} fxi_charge;

typedef enum fxi_quota_result {
    FXI_QUOTA_OK,
    FXI_QUOTA_FULL,          // later, when others have released
    FXI_QUOTA_EXCEEDS_LIMIT, // more than the limit, even alone
    FXI_QUOTA_NO_MEMORY,     // of bodies: the system has none
} fxi_quota_result;

void fxi_charge_open(fxi_charge *c, fxi_quota *q); // takes a reference of q
void fxi_charge_close(fxi_charge *c);              // releases everything, drops the quota
// Counts n_bytes, or nothing and says why not.
fxi_quota_result fxi_charge_reserve(fxi_charge *c, fxi_bytes_of of, size_t n_bytes);
// Counts n_bytes whatever the limit, for what exists already. False: the quota is over its limit,
// or one kind takes more than half of it; the caller should release what it can.
bool fxi_charge_add(fxi_charge *c, fxi_bytes_of of, size_t n_bytes);
void fxi_charge_release(fxi_charge *c, fxi_bytes_of of, size_t n_bytes); // pre: counted

// ---- bodies -----------------------------------------------------------------------------------

// A request's body while it arrives, freed as soon as it has been parsed. The program has the heap
// give large blocks back to the system (fxi_heap_map_large).
typedef struct fxi_body { // all zero: empty
    char *p;
    size_t n, cap; // the charge holds cap bytes
} fxi_body;

// Reserves and allocates n_bytes: the announced length.
fxi_quota_result fxi_body_reserve(fxi_body *b, fxi_charge *c, size_t n_bytes);
// Appends; grows beyond what was reserved.
fxi_quota_result fxi_body_add(fxi_body *b, fxi_charge *c, const char *data, size_t n);
void fxi_body_free(fxi_body *b, fxi_charge *c); // empty again

#endif
