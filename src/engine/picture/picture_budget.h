// picture_budget.h - how often pictures are taken and whole ones are made: the law of what those
// who look may cost, as plain data. picture.h states it for users.
//
// All that they cost, in CPU time, is charged to one of two accounts:
//
//   changes   taking a picture, and making changes of it and sending them. The next picture waits
//             until the share has earned what the newest one cost
//   wholes    what comes once with those who begin to look: whole pictures, made and sent, and the
//             first picture after nobody has looked. They are a debt, which is paid back over time;
//             while there is one, each account has half of the share
//
// So a whole picture that costs as much as a hundred changes slows the changes of all others to
// half their rate for a while, and does not stop them. One may be made while the debt is at most
// CREDIT; those who wait for one then share it. So however often somebody comes back: all costs
// together are the share in the long run, and in any time more than that by CREDIT, one picture
// and one whole at most.
#ifndef FXI_ENGINE_PICTURE_BUDGET_H
#define FXI_ENGINE_PICTURE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

enum { FXI_PICTURE_CREDIT_US = 40000, FXI_PICTURE_LEAST_GAP_US = 100000 };

typedef struct fxi_picture_budget { // all 0: nothing is owed
    uint64_t change_us;             // cost of the newest picture and of its changes, so far
    bool was_in_debt;               // at some time since that was taken
    uint64_t debt_us, debt_at_us;   // for whole ones, as of that time
} fxi_picture_budget;

// The newest picture: it has been taken, and what is charged from now on is for this one.
void fxi_picture_budget_begin(fxi_picture_budget *b, uint64_t now_us);
void fxi_picture_budget_charge(fxi_picture_budget *b, uint64_t us);
void fxi_picture_budget_charge_whole(fxi_picture_budget *b, uint64_t now_us, uint64_t us);

// From the newest picture to the next one, as things are now.
uint64_t fxi_picture_budget_gap_us(const fxi_picture_budget *b);
// Until a whole picture may be made; 0: now.
uint64_t fxi_picture_budget_whole_wait_us(const fxi_picture_budget *b, uint64_t now_us);

#endif
