// standin_dnn.h - a stand-in for NVIDIA's cuDNN: libcudnn.so.9 without a GPU, for tests, on the
// stand-in for the driver (standin.h).
//
// It knows the operation of attention, of sequences with one query each over ragged caches, and
// graphs of products, pointwise steps and reductions that begin with the product of such queries
// and keys (gpu/library/sdpa.h). It computes them by plain loops, step by step, when the stream
// comes to them. Objects are lists of attributes. What it is given is checked, and a breach is
// recorded where those of the driver are (standin_report.breach):
//   - an object was made by it and not dropped, is changed before it is finished, and used after;
//   - a handle is made and used with a context, and has a stream;
//   - operands of an execution are those of the plan's graph: the device's memory, open, as large
//     as strides, offsets and counts say, when the work runs; K and V are looked at row by row;
//   - each sequence has as many queries and positions as the graph has room for at most, and one
//     query where it is the operation; in a graph of steps, scores of positions that are not there
//     are NaN, and nothing of them may be left when values are added.
// The workspace is filled with garbage.
#ifndef VT_TEST_STANDIN_DNN_H
#define VT_TEST_STANDIN_DNN_H

#include "standin/library/standin_library.h"

extern standin_library standin_dnn; // its objects are all that it makes

typedef struct standin_dnn_report { // since the last reset
    uint64_t n_plan, n_execute;
    uint64_t n_masked; // of the executions, those of graphs of steps
} standin_dnn_report;

void standin_dnn_reset(void); // also standin_dnn
standin_dnn_report standin_dnn_look(void);

// From now on it supports no attention of so many sequences; 0: of any number.
void standin_dnn_refuse(int64_t n_seq);

#endif
