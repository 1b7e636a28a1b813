/* The filter gradient of 64 images in a two-byte type, against double precision: the error of a query's first result,
 * over several draws of the data.
 *
 * half_sums half|bfloat16 */
#include <math.h>

#include "kernel.h"

int main(int count, char **arguments) {
    enum { DRAWS = 8 };
    REQUIRE(count == 2, "half_sums half|bfloat16");
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Shape shape = shape_square(BACKWARD_FILTER, 64, 6, 8, 6, 3, 1);
    shape.type = two_byte_type(arguments[1]);
    double sum = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        Random random = {(uint64_t)draw};
        Kernel kernel;
        kernel_open(&kernel, &shape, &random);
        Perf results[MOST_RESULTS];
        int returned;
        CALL(kernel_get(handle, &kernel, MOST_RESULTS, &returned, results));
        Guarded workspace = guarded_new(results[0].memory);
        CALL(kernel_run(handle, &kernel, results[0].algo, &workspace));
        guarded_check(&workspace, "the workspace");
        double error = kernel_error(&kernel);
        sum += error * error;
        guarded_free(&workspace);
        kernel_close(&kernel);
    }
    CALL(cudnnDestroy(handle));
    printf("error %.9f\n", sqrt(sum / DRAWS));
    return 0;
}
