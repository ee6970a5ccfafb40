// vector_folders.h - the Hugging Face folders of tests/vectors, each with the GGUF file of the same
// model that was made independently.
#ifndef TESTS_UNIT_VECTOR_FOLDERS_H
#define TESTS_UNIT_VECTOR_FOLDERS_H

#include "unit/cmocka_all.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define VECTORS FX_SOURCE_DIR "/tests/vectors/"

// NAME and NAME@FORM are folders of the model NAME.
static inline void for_each_folder(void (*check)(const char *name, const char *folder,
                                                 const char *file))
{
    struct dirent *e;
    int n = 0;
    DIR *dir = opendir(VECTORS "folders");
    assert_non_null(dir);
    while ((e = readdir(dir))) {
        char folder[512], file[512];
        if (e->d_name[0] == '.') continue;
        snprintf(folder, sizeof folder, VECTORS "folders/%s", e->d_name);
        snprintf(file, sizeof file, VECTORS "models/%.*s.gguf", (int)strcspn(e->d_name, "@"),
                 e->d_name);
        check(e->d_name, folder, file);
        n++;
    }
    closedir(dir);
    assert_true(n >= 42);
}

#endif
