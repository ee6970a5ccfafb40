// soak.h - the owner and the mapper thread together, for as long as wanted: rounds of random
// operations on a backend whose calls take a random time, so that the owner meets jobs in every
// state. Calls fail in every fourth round; in the others none may, be it only one whose failure no
// operation answers. What sequences hold is read every 8 operations, while the mapper works, and
// all of it is verified every 64.
//
// Environment: VT_SOAK_STEPS is the number of operations, rounded up to whole rounds; VT_TEST_SEED
// and VT_TEST_ROUND are where it begins. VT_SOAK_STEPS=1 runs one round. A deadlock ends in CTest's
// time limit.
#ifndef VT_TEST_SOAK_H
#define VT_TEST_SOAK_H

#include "vmm_fault.h"
#include "vtensor/vtensor.h"

// What is soaked; there is one at a time. Errors end the test.
typedef struct soak {
    uint64_t round_steps;   // operations of a round, which has one setup
    uint64_t default_steps; // if VT_SOAK_STEPS is not set
    void (*open)(uint64_t round, uint64_t seed);
    vt_vmm *(*fault)(void); // the fault backend that was opened
    vt_manager *(*manager)(void);
    void (*step)(bool faulty); // one operation, drawn at random; disarms the fault backend
    void (*look)(void);
    void (*verify)(void);
    void (*close)(void); // and nothing may be left
} soak;

// The test; its state is a soak. Prints the seed and the round when it has ended.
void test_owner_and_mapper_together(void **state);
int soak_print_round(void **state);

#endif
