// twin_heads.h - writes a model with one KV head as one with several that are equal: it computes
// the same, and devices can share it out.
#ifndef TESTS_MODEL_TWIN_HEADS_H
#define TESTS_MODEL_TWIN_HEADS_H

// Returns how many KV heads the model at `path` has, 2 or 3. 0: `from` has more than one, or the
// query heads cannot be divided so; nothing is written. Pre: no norm over the keys of all heads.
int twin_heads_write(const char *path, const char *from);

#endif
