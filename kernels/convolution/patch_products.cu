// Brings patches of images, which neither overlap nor have gaps between them, into the rows of a matrix, and back. With
// filters as large as their strides, a convolution is a product of this matrix.
//
// x is `[images][channels][slices][height][width]`, and a patch has SLICES slices, ROWS rows and COLUMNS columns of
// each channel. The patches of an image, slice by slice and row by row, are rows of the matrix: `[images ·
// patches][channels · SLICES · ROWS · COLUMNS]`, with zeros behind each row up to `matrix_pitch`. Pixels after the last
// whole patch of an axis are in no patch.
//
// A line is the part of a patch that lies in one row of x. A block takes some neighbouring patches of one row of
// patches, and some of their lines, through shared memory. Rows of x and of the matrix are moved in units.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16; SLICES, ROWS, and COLUMNS, which counts units; and
// UNIT_BYTES, 16, 8, 4 or 2: units divide the patches' columns and the rows of x. Grid: a block for each tile. Dynamic
// shared memory: `lines` lines of `pitch` units.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 4
#include "common/tiles.cuh"
#include "convolution/scale.cuh"

// The smallest part of a row that is moved.
struct alignas(UNIT_BYTES) Unit {
    Element of[UNIT_BYTES / sizeof(Element)];
};

struct Patches {
    const void *from;
    void *to;
    int images, channels;
    // x, and its whole patches along each axis. Columns count units.
    int slices, height, width, patch_slices, patch_rows, patch_columns;
    // The patches and lines of a tile.
    int patches, lines;
    // Units from a line in shared memory to the next, and from a row of the matrix to the next.
    int pitch, matrix_pitch;
    // What `scatter_patches` multiplies the numbers of x with that are in no patch.
    float beta;
};

// A block's tile: its image, its place among the image's patches, and its first line.
struct Tile {
    long long image;
    int slice, row, column, first_line, patches, lines;

    // With or without the pixels after the last patch of each axis.
    __device__ __forceinline__ Tile(const Patches &of, bool has_rests) {
        const auto count = [=](int size, int side, int whole) { return has_rests ? tiles_of(size, side) : whole; };
        const int rows = count(of.height, ROWS, of.patch_rows);
        const int slices = count(of.slices, SLICES, of.patch_slices);
        const int columns = count(of.width, COLUMNS, of.patch_columns);
        const int all_lines = of.channels * SLICES * ROWS;
        const int across = tiles_of(columns, of.patches), deep = tiles_of(all_lines, of.lines);
        int index = blockIdx.x;
        column = index % across * of.patches, index /= across;
        first_line = index % deep * of.lines, index /= deep;
        row = index % rows, index /= rows;
        slice = index % slices;
        image = index / slices;
        patches = min(of.patches, columns - column), lines = min(of.lines, all_lines - first_line);
    }

    // A row of x, in which a line of each of the tile's patches lies.
    struct Line {
        int slice, row;
        // The row's first element.
        long long place;
    };

    __device__ __forceinline__ Line line(const Patches &of, int which) const {
        const int all = first_line + which, channel = all / (SLICES * ROWS);
        Line line;
        line.slice = slice * SLICES + all / ROWS % SLICES;
        line.row = row * ROWS + all % ROWS;
        line.place =
            (((image * of.channels + channel) * of.slices + line.slice) * of.height + line.row) * of.width;
        return line;
    }

    // Where the tile's lines of one of its patches begin in the matrix.
    __device__ __forceinline__ long long in_matrix(const Patches &of, int patch) const {
        const long long all = ((image * of.patch_slices + slice) * of.patch_rows + row) * of.patch_columns;
        return (all + column + patch) * of.matrix_pitch + first_line * COLUMNS;
    }
};

KERNEL(gather_patches, Patches) {
    SHARED(Unit, shared);
    const Patches &of = parameters;
    const Tile tile(of, false);
    const Unit *const x = static_cast<const Unit *>(of.from);
    Unit *const matrix = static_cast<Unit *>(of.to);
    for (int which = WARP; which < tile.lines; which += WARPS) {
        const Unit *const from = x + tile.line(of, which).place + tile.column * COLUMNS;
#pragma unroll 4
        for (int i = LANE; i < tile.patches * COLUMNS; i += 32) shared[which * of.pitch + i] = from[i];
    }
    barrier();
    const int units = tile.lines * COLUMNS;
    const bool is_last = tile.first_line + tile.lines == of.channels * SLICES * ROWS;
    const int end = is_last ? of.matrix_pitch - tile.first_line * COLUMNS : units;
    for (int patch = WARP; patch < tile.patches; patch += WARPS) {
        Unit *const to = matrix + tile.in_matrix(of, patch);
#pragma unroll 4
        for (int i = LANE; i < end; i += 32)
            to[i] = i < units ? shared[i / COLUMNS * of.pitch + patch * COLUMNS + i % COLUMNS] : Unit();
    }
}

// The number that x gets where no patch is.
__device__ __forceinline__ Unit rest_of(const Unit &old, float beta) {
    Unit rest;
#pragma unroll
    for (int i = 0; i < int(UNIT_BYTES / sizeof(Element)); i++)
        rest.of[i] = to_element(beta == 0 ? 0 : beta * to_float(old.of[i]));
    return rest;
}

KERNEL(scatter_patches, Patches) {
    SHARED(Unit, shared);
    const Patches &of = parameters;
    const Tile tile(of, true);
    const Unit *const matrix = static_cast<const Unit *>(of.from);
    Unit *const x = static_cast<Unit *>(of.to);
    const bool is_whole = tile.slice < of.patch_slices && tile.row < of.patch_rows;
    const int patches = is_whole ? min(tile.patches, of.patch_columns - tile.column) : 0;
    for (int patch = WARP; patch < patches; patch += WARPS) {
        const Unit *const from = matrix + tile.in_matrix(of, patch);
#pragma unroll 4
        for (int i = LANE; i < tile.lines * COLUMNS; i += 32)
            shared[i / COLUMNS * of.pitch + patch * COLUMNS + i % COLUMNS] = from[i];
    }
    barrier();
    const int first = tile.column * COLUMNS, columns = min(tile.patches * COLUMNS, of.width - first);
    for (int which = WARP; which < tile.lines; which += WARPS) {
        const auto line = tile.line(of, which);
        if (line.slice >= of.slices || line.row >= of.height) continue;
        Unit *const to = x + line.place + first;
        for (int i = LANE; i < columns; i += 32) {
            if (i < patches * COLUMNS) to[i] = shared[which * of.pitch + i];
            else to[i] = rest_of(to[i], of.beta);
        }
    }
}

struct Sums {
    // A row for each filter, with `pitch` numbers, of which `depth` are the filter's.
    const float *sums;
    Element *dw;
    int elements, depth, pitch;
    float alpha, beta;
};

// Brings sums in float into dw.
KERNEL(write_filters, Sums) {
    const Sums &of = parameters;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= of.elements) return;
    scale_into(of.dw[i], of.sums[i / of.depth * of.pitch + i % of.depth], of.alpha, of.beta);
}
