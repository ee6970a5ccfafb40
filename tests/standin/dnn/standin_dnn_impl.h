// standin_dnn_impl.h - what the files of the stand-in for cuDNN share; see standin_dnn.h.
#ifndef VT_TEST_STANDIN_DNN_IMPL_H
#define VT_TEST_STANDIN_DNN_IMPL_H

#include "base/number/dtype.h"
#include "emulator/emu_library.h"
#include "gpu/library/dnn_api.h"
#include "standin/dnn/standin_dnn.h"
#include "standin/state.h"

enum { STANDIN_DNN_WORKSPACE_BYTES = 4096, STANDIN_DNN_GARBAGE = 0xA5 };

typedef struct dnn_value {
    struct dnn_value *next;
    fxi_dnn_attribute which;
    int64_t n;
    unsigned char bytes[];
} dnn_value;

typedef struct dnn_thing {
    standin_object object; // of the library's kinds; HANDLE: a handle
    bool finished;
    dnn_value *values;
} dnn_thing;

// NULL: it was not set.
const dnn_value *standin_dnn_value(const dnn_thing *t, fxi_dnn_attribute which);
// The i-th object that an attribute names; NULL: none.
dnn_thing *standin_dnn_linked(const dnn_thing *t, fxi_dnn_attribute which, int i);
int64_t standin_dnn_number(const dnn_thing *t, fxi_dnn_attribute which, int i);
// The pointer of a tensor in an execution, by its id.
void *standin_dnn_operand(const dnn_thing *variant, const dnn_thing *tensor);

// standin_dnn_graph.c: the work of a graph of simple steps, in memory of malloc. NULL: none left,
// or it is not such a graph.
void *standin_dnn_graph_make(const dnn_thing *graph, const dnn_thing *variant, void *workspace);
void standin_dnn_graph_run(void *work);

#endif
