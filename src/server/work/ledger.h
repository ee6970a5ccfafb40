// ledger.h - every byte that waits in the server or is held for a request, counted against one
// limit before it is taken.
//
//   body    what has arrived of bodies, or is announced by Content-Length
//   tree    parsed JSON
//   prompt  rendered chats and token ids on their way to the engine
//   queue   what the engine copied: ids, once for each sequence, stop strings, biases
//   answer  text that waits for its reader
//   grammar what the engine's grammars hold: they outlive the requests that asked for them
//
// A request has one bill. Bills of less than FXI_SMALL_BILL_BYTES may fill the whole limit, larger
// ones leave an eighth of it free: small requests are served while large ones fill the ledger.
// Counting is atomic, without a lock. Any thread; the ledger lives as long as its last bill.
#ifndef FXI_SERVER_LEDGER_H
#define FXI_SERVER_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FXI_SMALL_BILL_BYTES (64u << 10)

typedef enum fxi_bytes_of {
    FXI_BYTES_BODY,
    FXI_BYTES_TREE,
    FXI_BYTES_PROMPT,
    FXI_BYTES_QUEUE,
    FXI_BYTES_ANSWER,
    FXI_BYTES_GRAMMAR,
    FXI_N_BYTES_OF
} fxi_bytes_of;

typedef struct fxi_ledger fxi_ledger;

typedef struct fxi_ledger_gauges { // for metrics
    size_t limit_bytes, used_bytes, peak_bytes;
    size_t of_bytes[FXI_N_BYTES_OF]; // used_bytes is their sum
    uint64_t n_refused;              // takes refused so far
} fxi_ledger_gauges;

// The limit by default: an eighth of the memory that is free, 64 MiB to 1 GiB. `root`: as in
// fxi_free_memory_bytes.
size_t fxi_ledger_default_bytes(const char *root);

fxi_ledger *fxi_ledger_new(size_t limit_bytes); // one reference; NULL: out of memory
void fxi_ledger_unref(fxi_ledger *l);           // NULL is allowed
void fxi_ledger_read(const fxi_ledger *l, fxi_ledger_gauges *out); // each figure by itself is exact

// What one request holds. Opened once; several threads may take and give back at a time.
typedef struct fxi_bill {
    fxi_ledger *ledger; // NULL: counts nothing, refuses nothing
    atomic_size_t of[FXI_N_BYTES_OF];
} fxi_bill;

typedef enum fxi_take {
    FXI_TAKE_OK,
    FXI_TAKE_FULL,  // later, when others have given back
    FXI_TAKE_NEVER, // more than the limit, even alone
} fxi_take;

void fxi_bill_open(fxi_bill *b, fxi_ledger *l); // takes a reference of l
// Counts n_bytes, or nothing and says why not.
fxi_take fxi_bill_take(fxi_bill *b, fxi_bytes_of of, size_t n_bytes);
// Counts n_bytes whatever the limit, for what exists already. False: the ledger is beyond its limit
// now, or one kind takes more than half of it, and who can should give back.
bool fxi_bill_force(fxi_bill *b, fxi_bytes_of of, size_t n_bytes);
void fxi_bill_give(fxi_bill *b, fxi_bytes_of of, size_t n_bytes); // pre: taken
// What is held now of a kind that is in no bill, whatever the limit.
void fxi_ledger_note(fxi_ledger *l, fxi_bytes_of of, size_t n_bytes);
void fxi_bill_close(fxi_bill *b); // gives everything back, drops the ledger

#endif
