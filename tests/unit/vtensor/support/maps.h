// maps.h - what the system reports about this process's mappings.
#ifndef VT_TEST_MAPS_H
#define VT_TEST_MAPS_H

#include <stdbool.h>
#include <stdint.h>

uint64_t maps_of_memfd(void);           // lines of /proc/self/maps that name a memfd of vtensor
uint64_t read_only_maps_of_memfd(void); // of them, those that cannot be written
uint64_t maps_in_all(void);             // lines of /proc/self/maps
uint64_t max_map_count(void);           // of the system

// Bytes, summed over the memfd's mappings, of a field of /proc/self/smaps: "\nRss:", "\nPss:", ...
uint64_t smaps_of_memfd(const char *field);

// True if reading a byte at p raises SIGSEGV; a child tries it.
bool read_faults(const void *p);

#endif
