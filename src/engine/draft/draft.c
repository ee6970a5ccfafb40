// draft.c - see draft.h.
#include "engine/draft/draft.h"

#include <stdlib.h>

fxi_draft *fxi_draft_make(void)
{
    return calloc(1, sizeof(fxi_draft));
}

void fxi_draft_free(fxi_draft *d)
{
    if (!d) return;
    fxi_ngram_free(&d->index);
    free(d);
}
