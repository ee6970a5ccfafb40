// body.h - a request's body while it arrives: billed before it is allocated, and given back to the
// system as soon as it has been parsed.
#ifndef FXI_SERVER_BODY_H
#define FXI_SERVER_BODY_H

#include <stddef.h>

#include "server/work/ledger.h"

typedef struct fxi_body { // all zero: empty
    char *p;
    size_t n, cap; // the bill holds cap bytes
} fxi_body;

typedef enum fxi_body_status {
    FXI_BODY_OK,
    FXI_BODY_FULL,      // the ledger is full
    FXI_BODY_NEVER,     // the ledger cannot hold it, even alone
    FXI_BODY_NO_MEMORY, // the system has none
} fxi_body_status;

// Bills and allocates room for n_bytes: the announced length.
fxi_body_status fxi_body_reserve(fxi_body *b, fxi_bill *bill, size_t n_bytes);
// Appends; grows beyond what was reserved.
fxi_body_status fxi_body_add(fxi_body *b, fxi_bill *bill, const char *data, size_t n);
void fxi_body_free(fxi_body *b, fxi_bill *bill); // empty again

#endif
