#ifndef STEERING_H_
#define STEERING_H_

#include <ucudnn.h>

#include "kernel.h"

/* Steps of a scenario that steer the library by ucudnn.h.
 *
 *   total=BYTES     sets the total, and reads it back
 *   no_total        there is no total: Workspace Division is refused, and so is an unlimited total
 *   nulls           null pointers are refused
 *   policy=NAME     wr, wd or off
 *   finish          all layers have been asked for
 *   one_stream=B    whether all layers share one segment
 *   undescribed     nothing has been divided
 *   describe        prints the division as text, after a line "description" */
void set_total(cudnnHandle_t handle, size_t bytes);
int steer(cudnnHandle_t handle, const char *step, const char *value); /* returns whether there is such a step */

#endif
