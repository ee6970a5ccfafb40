// log.h - lines to a file descriptor that hold nobody up.
//
//   any thread --fxi_log_add--> ring of bytes --> one writer thread --> the descriptor
//
// A terminal that is stopped, or a pipe that nobody reads, blocks whoever writes to it. Here that
// is the writer thread alone. While it waits, the ring fills; lines that find no room are dropped
// and counted, and once lines can be written again, one of them tells how many are missing.
#ifndef FXI_SERVER_LOG_H
#define FXI_SERVER_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "flexinfer/error.h"

typedef struct fxi_log fxi_log;

// Writes the line that tells of n_dropped lines to dst, without a newline.
typedef void fxi_log_teller(char *dst, size_t cap, uint64_t n_dropped);

// Starts the writer thread. fd stays the caller's and open until fxi_log_close. ring_bytes: room
// for lines that wait; 0: 256 KiB. tell may be NULL: a line of plain text. Errors: FX_ENOMEM,
// FX_EIO, FX_EINTERNAL (no thread).
fx_status fxi_log_open(int fd, size_t ring_bytes, fxi_log_teller *tell, fxi_log **out,
                       fx_error *err);

// Adds a line, given without its newline. Any thread; takes no longer than a copy.
void fxi_log_add(fxi_log *log, const char *line);
uint64_t fxi_log_n_dropped(fxi_log *log); // lines dropped so far; any thread

// Waits at most wait_s for the lines to be written, then ends the thread. What has not been written
// by then is lost. No other thread may use the log any more. log may be NULL.
void fxi_log_close(fxi_log *log, double wait_s);

#endif
