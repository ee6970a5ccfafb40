// team_parts.h - shared by the files of team/: what a team, its domains and its sequences are.
//
// Everything here is made of calls of vtensor.h, one for each rank in turn. What they need to be
// all or nothing is of five kinds:
//   asked before    truncate and fork fail for reasons that can be known (sequence/seq_undo.h)
//   in two halves   an extend: no rank lets a window pass before all of them have the memory
//   taken back      what is new is released, what an extend has backed is given back
//   turned round    ranks arrive in the swap or back at different times; if one fails, the others
//                   turn round, and the call answers VT_BUSY until they have arrived
//   harmless        what a rank has prepared or recorded beyond the others is never seen
#ifndef VTI_TEAM_H
#define VTI_TEAM_H

#include "vtensor/team.h"

struct vt_team {
    uint32_t n;
    vt_team_seq *newest;           // all sequences of the team
    vt_team_domain *newest_domain; // all domains
    vt_manager *m[];               // [n]
};

struct vt_team_domain {
    vt_team *t;
    vt_team_domain *newer, *older;
    vt_domain *d[]; // [n]
};

typedef enum vti_team_way { VTI_TEAM_STAYS = 0, VTI_TEAM_GOES_OUT, VTI_TEAM_COMES_IN } vti_team_way;

struct vt_team_seq {
    vt_team *t;
    vt_team_seq *newer, *older;
    uint32_t len_tok; // in every rank
    bool is_swapped;  // or on its way
    vti_team_way way;
    bool had_none;  // when a swap_out began, no rank was swapped out
    vt_status owed; // the failure for which ranks turn round
    bool is_lost;   // ranks differ
    vt_seq *seq[];  // [n]
};

#endif
