// team_parts.h - shared by the files of team/: what a team, its domains and its sequences are.
//
// Everything here is made of calls of vtensor.h, one for each rank in turn. What they need to be
// all or nothing is of three kinds:
//   asked before    truncate and fork fail for reasons that can be known (sequence/seq_undo.h)
//   taken back      what is new is released; an extend is undone, since nobody has written yet
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

struct vt_team_seq {
    vt_team *t;
    vt_team_seq *newer, *older;
    uint32_t len_tok; // in every rank
    bool is_swapped;
    bool is_lost;  // ranks differ
    vt_seq *seq[]; // [n]
};

#endif
