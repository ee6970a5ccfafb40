// fake_pictures.h - pictures of the fake engine: there is a new one when a test says so.
#ifndef FAKE_PICTURES_H
#define FAKE_PICTURES_H

#include "flexinfer/picture.h"

typedef struct fake_pictures {
    int n_viewer;        // fx_picture_begin without fx_picture_end
    int n_want;          // calls of fx_picture_want, so far
    int n_alive;         // pictures that somebody holds, the newest one included
    uint64_t charged_us; // so far,
    uint64_t whole_us;   // and for whole pictures
} fake_pictures;

fake_pictures fake_pictures_counts(void);
// Takes a picture that shows so many requests, and tells of it as the engine does. Nothing happens
// while nobody looks.
void fake_pictures_take(int n_request);
// What fx_picture_whole_wait_us says from now on; 0 at first.
void fake_pictures_hold_wholes(uint64_t wait_us);

#endif
